/* All-reduce by recursive doubling, log2 N rounds, argv[1] doubles a rank: as sim_scale.py does, for SMPI. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, n;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    int numel = atoi(argv[1]);
    double *data = malloc(numel * sizeof *data), *incoming = malloc(numel * sizeof *incoming);
    for (int i = 0; i < numel; i++)
        data[i] = rank;
    double begin = MPI_Wtime();
    for (int distance = 1; distance < n; distance *= 2) {
        int partner = rank ^ distance;
        MPI_Request both[2];
        MPI_Isend(data, numel, MPI_DOUBLE, partner, 0, MPI_COMM_WORLD, &both[0]);
        MPI_Irecv(incoming, numel, MPI_DOUBLE, partner, 0, MPI_COMM_WORLD, &both[1]);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        for (int i = 0; i < numel; i++)
            data[i] += incoming[i];
    }
    double took = MPI_Wtime() - begin, sum = n * (n - 1.0) / 2;
    for (int i = 0; i < numel; i++)
        if (data[i] != sum)
            MPI_Abort(MPI_COMM_WORLD, 1);
    if (rank == 0)
        printf("%.17g\n", took);
    MPI_Finalize();
    return 0;
}
