#include "app/program/program_start.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "core/numerics/matrix_units.h"
#include "core/numerics/operating_system.h"

namespace moescope {
namespace {

constexpr const char* kCoreType = "OPENBLAS_CORETYPE";
// Number of times that a waiting thread checks for work before it sleeps. With libgomp's 300,000 a step of `nano` in
// the window took 20 times as long on two cores beside other programs, since a thread that spins keeps its core from
// the thread that it waits for. With 500 a step of S on 16 idle cores took 1.1 times as long.
constexpr const char *kSpinCount = "GOMP_SPINCOUNT", *kShortSpin = "5000";
// A restart sets one of these variables, so that it does not happen twice.
constexpr const char* kRestartedFrom = "MOESCOPE_RESTARTED_FROM";  // the slow core that OpenBLAS chose
constexpr const char* kRestartedFor = "MOESCOPE_RESTARTED_FOR";    // core and matrix units of a recording

char** own_arguments = nullptr;  // argv of main()

// Restarts the program with these values of the variables; an empty value leaves its variable as it is. Returns only if
// the restart failed.
void restart(const std::string& core, const std::string& units, const char* mark, const std::string& marked) {
  std::map<std::string, std::string> variables;
  for (char** variable = environ; *variable; ++variable) {
    const std::string text = *variable;
    variables.emplace(text.substr(0, text.find('=')), text);
  }
  for (const auto& [name, value] : {std::pair{kCoreType, core}, {kMatrixUnitsVariable, units}, {mark, marked}})
    if (!value.empty()) variables[name] = std::string(name) + '=' + value;
  std::vector<char*> environment;
  for (auto& [name, text] : variables) environment.push_back(text.data());
  environment.push_back(nullptr);
  execve(program_path().c_str(), own_arguments, environment.data());
}

bool set_by_user(const char* variable) {
  return std::getenv(variable) && !std::getenv(kRestartedFrom) && !std::getenv(kRestartedFor);
}

}  // namespace

// open() returns the lowest free number, so opening in order gives each stream its own number.
void keep_standard_streams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) != -1) continue;
    [[maybe_unused]] const int opened = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
  }
}

KernelCheck use_recorded_kernels(const std::string& recorded) {
  KernelCheck check = check_kernels(recorded);
  if (!check.helps()) return check;
  for (const char* variable : {kCoreType, kMatrixUnitsVariable})
    if (set_by_user(variable)) {
      check.text += std::string(" ") + variable + '=' + std::getenv(variable) + " is kept because you set it.";
      return check;
    }
  if (std::getenv(kRestartedFor))  // the restart had no effect: OpenBLAS was built without this core
    check.text += " This OpenBLAS has no " + check.core + " kernels.";
  else if (own_arguments)
    restart(check.core, check.units, kRestartedFor, check.core + ' ' + check.units);
  return check;
}

std::string start_with_fast_kernels(char** argv) {
  own_arguments = argv;
  const bool spins_long = !std::getenv(kSpinCount) && !std::getenv("OMP_WAIT_POLICY");
  if (spins_long) setenv(kSpinCount, kShortSpin, 1);
  const std::string core = openblas_core();
  if (const char* restarted_for = std::getenv(kRestartedFor);
      restarted_for && std::string_view(restarted_for).starts_with(core + ' '))
    return "OpenBLAS runs its " + core + " kernels, as in the recording that is trained again.";
  if (const char* slow_core = std::getenv(kRestartedFrom))
    return "OpenBLAS chose its slow " + std::string(slow_core) + " kernels; restarted with its " + core + " kernels.";
  const char* better = better_openblas_core();
  const bool is_requested = std::getenv(kCoreType);
  if (is_requested || !better) {
    if (spins_long) execv(program_path().c_str(), own_arguments);
    return "OpenBLAS " + (is_requested ? "runs its " + core + " kernels, as set by OPENBLAS_CORETYPE."
                                       : "chose its " + core + " kernels, which fit this CPU.");
  }
  restart(better, "", kRestartedFrom, core);
  return "OpenBLAS chose its slow " + core + " kernels; start with OPENBLAS_CORETYPE=" + better + " for speed.";
}

}  // namespace moescope
