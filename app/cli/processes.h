// The processes of a command: ranks that a launcher started, and signals that stop them.
#pragma once

#include <optional>
#include <string>

#include "core/cluster/ranks/ranks.h"

namespace moescope {

// The rank of this process among those that mpirun or srun started, from the environment.
struct LaunchedRank {
  int rank = 0, ranks = 1;  // rank is in [0, ranks)
  std::string by;           // "Open MPI"
};

// Reads OMPI_COMM_WORLD_RANK and _SIZE (Open MPI), PMI_RANK and PMI_SIZE (MPICH, Intel MPI), or SLURM_PROCID and
// SLURM_STEP_NUM_TASKS (srun; a batch script alone has no step, and is one process). Returns nullopt if the process was
// started alone.
std::optional<LaunchedRank> launched_rank();

// After this call SIGINT, SIGTERM and SIGHUP (unless it is ignored, as under nohup) stop the training after the present
// step. Collective over `ranks`; nullptr: one process. Ranks whose step waits for a dead rank end soon after mpirun
// sends them SIGTERM, and one rank on each machine prints why.
void catch_signals(Ranks* ranks);
// After this call stop_signal() returns `signal` once it was received, unless it is ignored. `flags`: of sigaction().
void stop_unless_ignored(int signal, unsigned flags);
int stop_signal();                    // the signal that was received; 0: none
const char* signal_text(int signal);  // "Ctrl-C"

}  // namespace moescope
