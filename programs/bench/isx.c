/* The sort of `probeline isx` with MPI: the steps of ISx's reference. Keys of 28 bits; sends them by one
 * MPI_Alltoallv in order of ranks, and counts how often each key of the own range occurs. Sorts once untimed,
 * and once more with the clock running. Prints the seconds of the second sort.
 *
 * usage: mpirun -n RANKS isx [KEYS]
 */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { KEY_BITS = 28 };

static int ranks, me;

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

static double sort(int keys, uint64_t seed)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double begun = MPI_Wtime();
    uint32_t *made = allocated((size_t)keys * sizeof *made);
    uint64_t state = seed * 65536 + (uint64_t)me + 1;
    for (int nth = 0; nth < keys; nth++) {
        state = state * 6364136223846793005u + 1442695040888963407u;
        made[nth] = (uint32_t)(state >> (64 - KEY_BITS));
    }

    int *counts = calloc(4 * (size_t)ranks, sizeof *counts);
    if (!counts)
        MPI_Abort(MPI_COMM_WORLD, 1);
    int *starts = counts + ranks, *theirs = starts + ranks, *their_starts = theirs + ranks;
    for (int nth = 0; nth < keys; nth++)
        counts[rank_of(made[nth])]++;
    for (int rank = 1; rank < ranks; rank++)
        starts[rank] = starts[rank - 1] + counts[rank - 1];
    uint32_t *sent = allocated((size_t)keys * sizeof *sent);
    int *next = allocated((size_t)ranks * sizeof *next);
    memcpy(next, starts, (size_t)ranks * sizeof *next);
    for (int nth = 0; nth < keys; nth++)
        sent[next[rank_of(made[nth])]++] = made[nth];

    MPI_Alltoall(counts, 1, MPI_INT, theirs, 1, MPI_INT, MPI_COMM_WORLD);
    for (int rank = 1; rank < ranks; rank++)
        their_starts[rank] = their_starts[rank - 1] + theirs[rank - 1];
    int received = their_starts[ranks - 1] + theirs[ranks - 1];
    uint32_t *own = allocated((size_t)received * sizeof *own);
    MPI_Alltoallv(sent, counts, starts, MPI_UINT32_T, own, theirs, their_starts, MPI_UINT32_T, MPI_COMM_WORLD);

    uint64_t width = ((1u << KEY_BITS) + (uint64_t)ranks - 1) / (uint64_t)ranks;
    uint32_t first = (uint32_t)((((uint64_t)me << KEY_BITS) + (uint64_t)ranks - 1) / (uint64_t)ranks);
    uint32_t *of_key = calloc(width + 1, sizeof *of_key);
    if (!of_key)
        MPI_Abort(MPI_COMM_WORLD, 1);
    for (int nth = 0; nth < received; nth++)
        of_key[own[nth] - first]++;
    MPI_Barrier(MPI_COMM_WORLD);
    double seconds = MPI_Wtime() - begun;

    uint64_t sum = 0;
    for (uint64_t key = 0; key <= width; key++)
        sum += of_key[key];
    if (sum != (uint64_t)received)
        MPI_Abort(MPI_COMM_WORLD, 2);
    free(made), free(counts), free(sent), free(next), free(own), free(of_key);
    return seconds;
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    MPI_Comm_rank(MPI_COMM_WORLD, &me);
    int keys = argc > 1 ? atoi(argv[1]) : 1 << 24;
    if (keys < 1) {
        fprintf(stderr, "KEYS must be at least 1\n");
        MPI_Abort(MPI_COMM_WORLD, 2);
    }
    sort(keys, 1);
    double seconds = sort(keys, 2);
    if (me == 0)
        printf("%.3f\n", seconds);
    MPI_Finalize();
    return 0;
}
