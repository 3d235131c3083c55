// Runs a shell command and returns its output, for tests.
#pragma once

#include <sys/wait.h>

#include <cstdio>
#include <string>

namespace moescope {

struct Ended {
  int status;  // -1 if a signal ended it
  std::string output;
};

inline Ended run(const std::string& command) {
  std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  std::string output;
  char buffer[4096];
  while (const std::size_t n = fread(buffer, 1, sizeof buffer, pipe)) output.append(buffer, n);
  const int status = pclose(pipe);
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, output};
}

}  // namespace moescope
