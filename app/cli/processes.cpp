#include "app/cli/processes.h"

#include <signal.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <vector>

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

namespace {

volatile std::sig_atomic_t g_signal = 0;
volatile std::sig_atomic_t g_speaks = 1;  // nonzero: this rank prints why the training ended

struct Process {
  pid_t id;
  char host[64];
};
std::vector<pid_t> g_ranks_before;  // process ids of the lower ranks on this machine

// Stops the training after the present step. With SA_RESETHAND, the same signal ends the program when it comes again.
void stop_after_step(int signal) {
  g_signal = signal;
}

// Ends the process. While a step waits for a dead rank, only signal handlers run. Ending in one is safe: SQLite rolls
// the open transaction back when the recording is next opened.
void give_up(int) {
  constexpr char kMessage[] =
      "\nmoescope-cli: stopped: another rank has ended or does not answer. The recording is complete up to the last "
      "step; after a training with --checkpoint DIR, --resume DIR continues from the last checkpoint, on as many ranks "
      "as there are.\n";
  if (g_speaks && write(STDERR_FILENO, kMessage, sizeof kMessage - 1) < 0)
    _exit(2);  // writing fails if stderr is closed
  _exit(1);
}

// mpirun sends SIGTERM to all ranks when one has died, and kills them a second later. The lowest rank on this machine
// that is still alive prints the message; which rank this is becomes certain only after SIGTERM.
void stop_soon(int signal) {
  g_signal = signal;
  for (const pid_t before : g_ranks_before)
    if (kill(before, 0) == 0) g_speaks = 0;
  itimerval soon{};
  soon.it_value.tv_usec = g_speaks ? 400000 : 600000;  // leaves time to print the message even on a busy machine
  setitimer(ITIMER_REAL, &soon, nullptr);
}

std::vector<pid_t> ranks_before(Ranks& ranks) {
  Process own_process{};
  own_process.id = getpid();
  gethostname(own_process.host, sizeof own_process.host - 1);
  std::vector<Process> all(ranks.size());
  ranks.gather_all(&own_process, sizeof own_process, all.data());
  std::vector<pid_t> before;
  for (int rank = 0; rank < ranks.rank(); ++rank)
    if (const Process& other = all[rank]; std::strcmp(other.host, own_process.host) == 0) before.push_back(other.id);
  return before;
}

}  // namespace

int stop_signal() {
  return g_signal;
}

const char* signal_text(int signal) {
  if (signal == SIGINT) return "Ctrl-C";
  if (signal == SIGHUP) return "SIGHUP: its terminal was closed";
  return "SIGTERM";
}

void stop_unless_ignored(int signal, unsigned flags) {
  struct sigaction action {};
  if (sigaction(signal, nullptr, &action) != 0 || action.sa_handler == SIG_IGN) return;
  action = {};
  action.sa_handler = stop_after_step;
  action.sa_flags = flags;
  sigaction(signal, &action, nullptr);
}

void catch_signals(Ranks* ranks) {
  // A closed terminal sends SIGHUP and the shell sends it again. The second signal must not interrupt the checkpoint
  // that the first one started.
  stop_unless_ignored(SIGHUP, 0);
  std::signal(SIGPIPE, SIG_IGN);  // a write to --jsonl - then fails if its reader has ended
  if (ranks) {
    g_ranks_before = ranks_before(*ranks);
    std::signal(SIGALRM, give_up);
    std::signal(SIGTERM, stop_soon);
    std::signal(SIGINT, SIG_IGN);  // mpirun receives SIGINT, too, and signals all ranks
    return;
  }
  struct sigaction action {};
  action.sa_handler = stop_after_step;
  action.sa_flags = SA_RESETHAND;
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

}  // namespace moescope
