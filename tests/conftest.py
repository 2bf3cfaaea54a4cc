"""What every test relies on."""

import signal

# A shell ignores interrupts in what it runs in the background, and children inherit that: tests send them.
signal.signal(signal.SIGINT, signal.default_int_handler)
