/* Ring all-reduce, 2(N-1) steps, argv[1] doubles a rank: what sim_scale.py runs on simulated ranks, for SMPI. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rank, n;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &n);
    int numel = atoi(argv[1]), chunk = numel / n;
    double *data = malloc(numel * sizeof *data), *incoming = malloc(chunk * sizeof *incoming);
    for (int i = 0; i < numel; i++)
        data[i] = rank;
    double begin = MPI_Wtime();
    for (int step = 0; step < 2 * (n - 1); step++) {
        int reducing = step < n - 1;
        int give = (rank - step + 2 * n) % n;
        int take = (give - 1 + n) % n;
        double *into = reducing ? incoming : data + take * chunk;
        MPI_Request both[2];
        MPI_Isend(data + give * chunk, chunk, MPI_DOUBLE, (rank + 1) % n, 0, MPI_COMM_WORLD, &both[0]);
        MPI_Irecv(into, chunk, MPI_DOUBLE, (rank - 1 + n) % n, 0, MPI_COMM_WORLD, &both[1]);
        MPI_Waitall(2, both, MPI_STATUSES_IGNORE);
        if (reducing)
            for (int i = 0; i < chunk; i++)
                data[take * chunk + i] += incoming[i];
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
