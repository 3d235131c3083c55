// The rank of this process among those that mpirun or srun started, from the environment.
#pragma once

#include <optional>
#include <string>

namespace moescope {

struct LaunchedRank {
  int rank = 0, ranks = 1;  // rank is in [0, ranks)
  std::string by;           // "Open MPI"
};

// Reads OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH, Intel MPI), or SLURM_PROCID and
// SLURM_STEP_NUM_TASKS (srun; a batch script alone has no step, and is one process). Returns nullopt if the process was
// started alone.
std::optional<LaunchedRank> launched_rank();

}  // namespace moescope
