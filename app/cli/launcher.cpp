#include "app/cli/launcher.h"

#include <array>
#include <cstdlib>

#include "core/files/text/words.h"

namespace moescope {

namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* ranks;
};
constexpr std::array<Launcher, 3> kLaunchers = {{
    {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
    {"PMI", "PMI_RANK", "PMI_SIZE"},
    {"Slurm", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
}};

std::optional<int> number(const char* text) {
  int value = 0;
  return text && read_number(text, value) ? std::optional(value) : std::nullopt;
}

}  // namespace

std::optional<LaunchedRank> launched_rank() {
  for (const Launcher& launcher : kLaunchers) {
    const std::optional<int> rank = number(std::getenv(launcher.rank)), ranks = number(std::getenv(launcher.ranks));
    if (rank && ranks && *rank >= 0 && *rank < *ranks) return LaunchedRank{*rank, *ranks, launcher.name};
  }
  return std::nullopt;
}

}  // namespace moescope
