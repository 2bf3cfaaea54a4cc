"""The compact engine: the same dual as `decomposition`, specialised to one problem and one CPU.

Once bounds are known at the root, only *live* neurons matter (ambiguous or passing; a blocked
neuron is 0), so every affine map shrinks to its live rows and columns. `packing` stores it as
blocks of four rows, `network` puts the blocks together, and compiled sweeps over `[neuron,
problem]` arrays do the rest:

    solve      slopes and split multipliers by sign ascent: many sub-problems, few steps (the
    search) ascend     slopes by Adam: many objective rows, more steps (root bounds, tightening)
    rigorous   float64 with an outward margin: what a verdict may rest on

Nothing here is imported by `import anybound`: the kernels need Numba.
"""
