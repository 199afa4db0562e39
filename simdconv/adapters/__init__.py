"""What connects simdconv with other array libraries; each module needs its library.

dask        loaded by itself when a dask array comes in
torch       a module for networks, imported by its user
"""
