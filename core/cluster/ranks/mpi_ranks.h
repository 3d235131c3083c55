// Ranks that are processes started by `mpirun`.
#pragma once

#include <memory>

#include "core/cluster/ranks/ranks.h"

namespace moescope {

// Initialises MPI; destroying the result finalises it. Call it once per process, on the thread that will use it. Throws
// std::runtime_error if the program was built without MPI, or mpirun did not start exactly `size` processes.
std::unique_ptr<Ranks> mpi_ranks(int size, int ranks_per_node, bool over_nodes);

}  // namespace moescope
