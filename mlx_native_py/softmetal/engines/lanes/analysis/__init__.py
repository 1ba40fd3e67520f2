"""What differs between the lanes of a simdgroup: values, branches, and what accesses touch."""
