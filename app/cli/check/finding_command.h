// Runs the user's command for findings.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace moescope {

// The command is a line for the shell, given by the user. What is told to it comes on its standard input alone, never
// in the line, so that no text of a log can become a command. Its output goes to standard error.
class FindingCommand {
 public:
  explicit FindingCommand(std::string command) : command_(std::move(command)) {}
  ~FindingCommand();  // waits for the commands that run
  FindingCommand(const FindingCommand&) = delete;
  FindingCommand& operator=(const FindingCommand&) = delete;

  // Starts the command with `input` and does not wait. Prints a message if it cannot be started.
  void start(const std::string& input);
  // Forgets commands that have ended; prints their exit status if it is not 0.
  void collect() { collect(false); }

 private:
  void collect(bool waits);
  std::string command_;
  std::vector<pid_t> running_;
};

}  // namespace moescope
