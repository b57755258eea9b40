# Everything a person does here, one recipe each. `just` lists them.

# Words go to the commands as they were given: "$@" is not split again.
set positional-arguments

# Which source it was, for results that are kept
export PROBELINE_COMMIT := `git describe --always --dirty 2>/dev/null || true`

[private]
default:
    @just --list --unsorted

# Latency on two nodes over RDMA: here, then there what it prints (just bench-latency FIRST_NODE)
bench-latency *args:
    cargo run --release -- bench-latency --two-nodes "$@"

# The same by two ranks on this machine, over shared memory if nothing else is asked
bench-latency-local *args:
    cargo run --release -- bench-latency "$@"

# find-or-puts a second on the paper's workloads and two more
bench-throughput *args:
    cargo run --release --quiet -- bench-throughput "$@"

# Chunk READs an insert takes, by load factor and C (paper Fig. 2)
roundtrips *args:
    cargo run --release --quiet -- roundtrips "$@"

# The table beside the machine's limits and other sets; wants 8 GiB of memory
# (glibc asks for huge pages for the other sets, as the table's windows have them)
bench-speed *args:
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 \
        cargo bench --quiet --package probeline-speed --bench speed -- "$@"

# What this machine's memory and a transport do at best, measured now
limits *args:
    cargo run --release --quiet -- limits "$@"

# Which C, M and depth this network and a workload want: tuning.toml, for --tuning
tune *args:
    cargo run --release --quiet -- tune "$@"

# A profile for simulate from results of bench-latency and limits (just profile NAME latency.json limits.json)
profile *args:
    cargo run --quiet --package probeline-profile --example measured -- "$@"

# Latency and throughput over every transport by turns; for MPI wants libopenmpi-dev, libmpich-dev, libclang-14-dev
compare *args:
    cargo build --release --quiet
    for library in openmpi mpich; do \
      command -v mpicc.$library >/dev/null || continue; \
      CARGO_BUILD_BUILD_DIR="${CARGO_TARGET_DIR:-target}" cargo build --release --quiet \
        --config ucx-shim/$library.toml --features mpi \
        --target-dir "${CARGO_TARGET_DIR:-target}/$library" || exit; \
    done
    "${CARGO_TARGET_DIR:-target}/release/probeline" compare "$@"

# The C interface: header, libraries and pkg-config file (just install-c PREFIX -- --features mpi)
install-c *args:
    capi/install "$@"

# Before Linux 6.1: let shared memory have huge pages until the next boot; asks for root
huge-pages:
    echo advise | $([ "$(id -u)" = 0 ] || echo sudo) tee /sys/kernel/mm/transparent_hugepage/shmem_enabled

# The paper's experiments at the size of a cluster, in virtual time; --paper: beside its figures
simulate *args:
    cargo run --release --quiet -- simulate "$@"

# A page of plots from the JSON of any number of runs: just report RUN.json... --html FILE
report *args:
    cargo run --release --quiet -- report "$@"

# Check the setup of this machine and its RDMA devices
doctor *args:
    cargo run --release --quiet -- doctor "$@"

# Explore a Petri net: a PNML file, or kanban:N, fms:N, philosophers:N
explore model="kanban:5" *args:
    cargo run --release --quiet -- explore "$@"

# Find the unitigs of FASTA and FASTQ files: FILE... -k K
contigs *args:
    cargo run --release --quiet -- contigs "$@"

# Count the k-mers of FASTA and FASTQ files: FILE... -k K
kmers *args:
    cargo run --release --quiet -- kmers "$@"

# Sort random integers over all ranks, as the benchmark ISx
isx *args:
    cargo run --release --quiet -- isx "$@"

# The sort of isx and one with MPI_Alltoallv, by turns (just bench-isx ROUNDS); wants libopenmpi-dev
bench-isx rounds="5":
    programs/bench-isx "$@"

# Irregular kernels: histogram, index-gather, randperm, toposort, triangles; --aggregated
bale kernel="histogram" *args:
    cargo run --release --quiet -- bale "$@"

# Reactive transport with the map as a cache of its chemistry: hit rate, time and error by digits
surrogate *args:
    cargo run --release --quiet -- surrogate "$@"

# This machine's nodes and cores, and where ranks would go
topology *args:
    cargo run --release --quiet -- topology "$@"

# Every check (the same as ./test)
test:
    ./test

# Formatting, lints and the tests that take no time: while writing
quick:
    cargo fmt --all
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test --workspace --lib --bins -- --skip model::

# The exhaustive model checks of the table and the map, with the number of executions; longer: PROBELINE_SCENARIOS=100000
model-check:
    cargo test --package probeline-table --package probeline-map --lib model -- --nocapture

# The verbs over Soft-RoCE in virtual machines: --list, --only NAME, --layer NAME (testbed/README.md)
vm-test *args:
    cargo run --quiet --package probeline-testbed --bin vm-test -- "$@"

# Latency over Soft-RoCE beside perftest's and ucx_perftest's, and how soon a loss is named: --check, --only NAME
vm-bench *args:
    cargo run --quiet --package probeline-testbed --bin vm-test -- --bench "$@"

# MPI RMA as a transport, by Open MPI and by MPICH: conformance, faults
check-mpi *libraries:
    ucx-shim/check-mpi "$@"

# The map from C beside the calls of MPI-DHT, by turns
check-map *args:
    ucx-shim/check-map "$@"

# The soak of each kind of table between processes, some of which are killed, for this many seconds
soak seconds="60":
    PROBELINE_SOAK_SECONDS={{seconds}} cargo test --package probeline-table --test killed

# The table linked without std and without a panic
nostd:
    ci/nostd-link
    ci/nostd-sysroot

# Write the bindings of libibverbs again; wants libclang, libibverbs-dev, installs bindgen-cli
verbs-bindings:
    verbs/sys/generate

# Instructions of a READ by the safe verbs and by a loop in C; wants valgrind, libibverbs-dev
verbs-cost:
    CARGO_TARGET_DIR=target/cost verbs/cost/measure

# Time and instructions of operations by READs and atomics; wants valgrind
posted-cost:
    cargo run --release --package probeline-table --example posted
    ci/posted-cost

# The documentation of all crates
doc:
    cargo doc --workspace --no-deps --open

# Licences, sources, duplicates and (with the advisory database) advisories; installs cargo-deny
deny *checks="licenses bans sources":
    cargo deny --version >/dev/null 2>&1 || cargo install --locked cargo-deny
    cargo deny check {{checks}}

# Every feature by itself; installs cargo-hack
features:
    cargo hack --version >/dev/null 2>&1 || cargo install --locked cargo-hack
    cargo hack clippy --workspace --each-feature --no-dev-deps -- -D warnings

# Fuzz the reading of nets for this many seconds; wants a nightly toolchain, installs cargo-fuzz
fuzz seconds="60":
    cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
    cargo +nightly fuzz run pnml -- -max_total_time={{seconds}} -max_len=4096
