#pragma once

namespace moescope {

// Processors that this process may use, at least 1: as taskset, a container or a batch system has restricted it.
int usable_processors();

}  // namespace moescope
