/* The sort of `probeline isx` with MPI: the steps of ISx's reference. Keys of 28 bits; sends them by one
 * MPI_Alltoallv in order of ranks, counts how often each key of the own range occurs, and writes the keys in order;
 * with `count`, as the reference does, only counts. Sorts once untimed, and once more in the same memory with the
 * clock running. Prints the seconds of the second sort.
 *
 * usage: mpirun -n RANKS isx [KEYS [count]]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BITS = 28 };

static int ranks, me, only_counts;

static int rank_of(uint32_t key)
{
    return (int)((uint64_t)key * (uint64_t)ranks >> KEY_BITS);
}

static void *allocated(size_t bytes)
{
    void *memory = malloc(bytes);
    if (!memory)
        MPI_Abort(MPI_COMM_WORLD, 1);
    return memory;
}

static uint32_t *made, *sent, *own, *of_key;
static int *counts, *starts, *next, *theirs, *their_starts;
/* Keys that a rank may receive. */
static size_t room;

static void allocate(int keys)
{
    size_t bytes = (size_t)keys * sizeof *made;
    uint64_t width = (1u << KEY_BITS) / (uint64_t)ranks + 2;
    room = (size_t)keys + (size_t)keys / 4 + 4096;
    made = allocated(bytes), sent = allocated(bytes), own = allocated(room * sizeof *own);
    of_key = allocated(width * sizeof *of_key);
    counts = allocated(5 * (size_t)ranks * sizeof *counts);
    starts = counts + ranks, next = starts + ranks, theirs = next + ranks, their_starts = theirs + ranks;
}

static double sort(int keys, uint64_t seed)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    uint64_t state = seed * 65536 + (uint64_t)me + 1;
    for (int nth = 0; nth < keys; nth++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        made[nth] = (uint32_t)(state >> (64 - KEY_BITS));
    }

    memset(counts, 0, (size_t)ranks * sizeof *counts);
    for (int nth = 0; nth < keys; nth++)
        counts[rank_of(made[nth])]++;
    starts[0] = their_starts[0] = 0;
    for (int rank = 1; rank < ranks; rank++)
        starts[rank] = starts[rank - 1] + counts[rank - 1];
    memcpy(next, starts, (size_t)ranks * sizeof *next);
    for (int nth = 0; nth < keys; nth++)
        sent[next[rank_of(made[nth])]++] = made[nth];

    MPI_Alltoall(counts, 1, MPI_INT, theirs, 1, MPI_INT, MPI_COMM_WORLD);
    for (int rank = 1; rank < ranks; rank++)
        their_starts[rank] = their_starts[rank - 1] + theirs[rank - 1];
    int received = their_starts[ranks - 1] + theirs[ranks - 1];
    if ((size_t)received > room)
        MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Alltoallv(sent, counts, starts, MPI_UINT32_T, own, theirs, their_starts, MPI_UINT32_T, MPI_COMM_WORLD);

    uint64_t width = ((1u << KEY_BITS) + (uint64_t)ranks - 1) / (uint64_t)ranks;
    uint32_t first = (uint32_t)((((uint64_t)me << KEY_BITS) + (uint64_t)ranks - 1) / (uint64_t)ranks);
    memset(of_key, 0, (width + 1) * sizeof *of_key);
    for (int nth = 0; nth < received; nth++)
        of_key[own[nth] - first]++;
    if (!only_counts) {
        uint32_t *sorted = own;
        for (uint64_t key = 0; key <= width; key++)
            for (uint32_t nth = 0; nth < of_key[key]; nth++)
                *sorted++ = first + (uint32_t)key;
    }
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - begun;

    uint64_t sum = 0;
    for (uint64_t key = 0; key <= width; key++)
        sum += of_key[key];
    if (sum != (uint64_t)received)
        MPI_Abort(MPI_COMM_WORLD, 2);
    return seconds;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    int keys = argc > 1 ? atoi(argv[1]) : 1 << 24;
    only_counts = argc > 2 && !strcmp(argv[2], "count");
    if (keys < 1) {
        fprintf(stderr, "KEYS must be at least 1\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    allocate(keys);
    sort(keys, 1);
    double seconds = sort(keys, 2);
    if (me == 0)
        printf("%.3f\n", seconds);
    MPI_Finalize();
    return 0;
}
