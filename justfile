# Everything a person does here, one recipe each. `just` lists them.

# Words go to the commands as they were given: "$@" is not split again.
set positional-arguments

# Record the commit in results
export PROBELINE_COMMIT := `git describe --always --dirty 2>/dev/null || true`

[private]
default:
    @just --list --unsorted

# Measure latency on two nodes: run on the first node, then run what it prints on the second
bench-latency *args:
    cargo run --release -- bench-latency --two-nodes "$@"

# Measure latency between two ranks of this machine, over shared memory by default
bench-latency-local *args:
    cargo run --release -- bench-latency "$@"

# Measure find-or-puts per second on the paper's workloads and two more
bench-throughput *args:
    cargo run --release --quiet -- bench-throughput "$@"

# Measure gets and puts of the map, by mode, workload and load factor
bench-map *args:
    cargo run --release --quiet -- bench-map "$@"

# Measure pushes and pops of queues, on one ring or one for each rank
bench-queue *args:
    cargo run --release --quiet -- bench-queue "$@"

# Count the chunk READs of an insert, by load factor and C (paper Fig. 2)
roundtrips *args:
    cargo run --release --quiet -- roundtrips "$@"

# Measure the table beside the machine's limits and other sets; needs 8 GiB of memory
# (glibc asks for huge pages for the other sets, as the table's windows have them)
bench-speed *args:
    GLIBC_TUNABLES=glibc.malloc.hugetlb=1 \
        cargo bench --quiet --package probeline-table --bench speed -- "$@"

# Measure the limits of this machine's memory and of a transport
limits *args:
    cargo run --release --quiet -- limits "$@"

# Choose C, M and depth for this network and a workload; writes tuning.toml for --tuning
tune *args:
    cargo run --release --quiet -- tune "$@"

# Print a profile for simulate from results: just profile NAME latency.json limits.json
profile *args:
    cargo run --quiet --package probeline-profile --example measured -- "$@"

# Compare all transports, by turns; MPI needs libopenmpi-dev, libmpich-dev, libclang-14-dev
compare *args:
    cargo build --release --quiet
    for library in openmpi mpich; do \
      command -v mpicc.$library >/dev/null || continue; \
      CARGO_BUILD_BUILD_DIR="${CARGO_TARGET_DIR:-target}" cargo build --release --quiet \
        --config ucx-shim/$library.toml --features mpi \
        --target-dir "${CARGO_TARGET_DIR:-target}/$library" || exit; \
    done
    "${CARGO_TARGET_DIR:-target}/release/probeline" compare "$@"

# Install the C interface: just install-c PREFIX -- --features mpi
install-c *args:
    capi/install "$@"

# Enable huge pages for shared memory until the next boot, before Linux 6.1; asks for root
huge-pages:
    echo advise | $([ "$(id -u)" = 0 ] || echo sudo) tee /sys/kernel/mm/transparent_hugepage/shmem_enabled

# Simulate the paper's experiments on a cluster, in virtual time; --paper-figures runs all of them
simulate *args:
    cargo run --release --quiet -- simulate "$@"

# Plot the JSON of any number of runs: just report RUN.json... --html FILE
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

# Run a program on shared memory by pages: is, lu, ocean, barnes
dsm program="lu" *args:
    cargo run --release --quiet -- dsm "$@"

# Compare with other programs (KMC, MPI, Lamellar), by turns: just bench-peers ROUNDS RESULTS.json
bench-peers *args:
    programs/bench-peers "$@"

# Run an irregular kernel: histogram, index-gather, randperm, toposort, triangles; --aggregated
bale kernel="histogram" *args:
    cargo run --release --quiet -- bale "$@"

# Simulate reactive transport with the map as a cache of its chemistry
surrogate *args:
    cargo run --release --quiet -- surrogate "$@"

# Show this machine's nodes and cores, and the core of each rank
topology *args:
    cargo run --release --quiet -- topology "$@"

# Print the completion script of a shell: bash, zsh, fish
completions shell="bash":
    cargo run --release --quiet -- completions "$@"

# Run every check (the same as ./test)
test:
    ./test

# Run formatting, lints and the fast tests
quick:
    cargo fmt --all
    cargo clippy --workspace --all-targets -- -D warnings
    cargo test --workspace --lib --bins -- --skip model::

# Check models of all structures; PROBELINE_SCENARIOS=100000 draws more random ones
model-check:
    cargo test -p probeline-table -p probeline-map -p probeline-containers -p probeline-dsm --lib model -- --nocapture

# Test the verbs in virtual machines: --list, --only NAME, --layer NAME (testbed/README.md)
vm-test *args:
    cargo run --quiet --package probeline-testbed --bin vm-test -- "$@"

# Measure latency and losses over Soft-RoCE beside perftest and ucx_perftest: --check, --only NAME
vm-bench *args:
    cargo run --quiet --package probeline-testbed --bin vm-test -- --bench "$@"

# Test MPI RMA as a transport, over Open MPI and MPICH
check-mpi *libraries:
    ucx-shim/check-mpi "$@"

# Compare the map from C with the calls of MPI-DHT, by turns
check-map *args:
    ucx-shim/check-map "$@"

# Soak each kind of table between processes, some of which are killed: just soak SECONDS
soak seconds="60":
    PROBELINE_SOAK_SECONDS={{seconds}} cargo test --package probeline-table --test killed

# Link the structures without std and without panics
nostd:
    ci/nostd-link
    ci/nostd-sysroot

# Generate the bindings of libibverbs; needs libclang and libibverbs-dev, installs bindgen-cli
verbs-bindings:
    verbs/sys/generate

# Count instructions of a READ by safe verbs and by C; needs valgrind and libibverbs-dev
verbs-cost:
    CARGO_TARGET_DIR=target/cost verbs/cost/measure

# Count the instructions of operations by READs and atomics; needs valgrind
posted-cost:
    ci/posted-cost

# Build the documentation of all crates
doc:
    cargo doc --workspace --no-deps --open

# Check licences, sources, duplicates and advisories of dependencies; installs cargo-deny
deny *checks="licenses bans sources":
    cargo deny --version >/dev/null 2>&1 || cargo install --locked cargo-deny
    cargo deny check {{checks}}

# Check every feature by itself; installs cargo-hack
features:
    cargo hack --version >/dev/null 2>&1 || cargo install --locked cargo-hack
    cargo hack clippy --workspace --each-feature --no-dev-deps -- -D warnings

# Fuzz the reader of Petri nets: just fuzz SECONDS; needs a nightly toolchain, installs cargo-fuzz
fuzz seconds="60":
    cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
    cargo +nightly fuzz run pnml -- -max_total_time={{seconds}} -max_len=4096
