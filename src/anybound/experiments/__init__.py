"""The paper's experiments and one of our own: what is run, and what figures and tables make of the records.

An experiment writes one record per measurement and goes on with what it finds; figures and tables are pure
functions of records, one file each.
"""
