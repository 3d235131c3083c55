#include "app/cli/check/finding_command.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "app/cli/printing.h"
#include "core/files/text/text_escape.h"
#include "core/files/whole_file.h"

extern char** environ;

namespace moescope {

void FindingCommand::start(const std::string& input) {
  // A file in place of a pipe: a command that does not read its input blocks nothing.
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), std::fclose);
  if (!file || !write_all(fileno(file.get()), input) || lseek(fileno(file.get()), 0, SEEK_SET) != 0)
    return print_to(stderr, "--on-finding: a temporary file cannot be written: {}\n", std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, fileno(file.get()), STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  std::string shell = "sh", option = "-c";
  char* arguments[] = {shell.data(), option.data(), command_.data(), nullptr};
  pid_t pid = 0;
  const int error = posix_spawn(&pid, "/bin/sh", &actions, nullptr, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return print_to(stderr, "--on-finding: /bin/sh: {}\n", std::strerror(error));
  running_.push_back(pid);
}

void FindingCommand::collect(bool waits) {
  std::erase_if(running_, [&](pid_t pid) {
    int status = 0;
    pid_t ended = 0;
    do ended = waitpid(pid, &status, waits ? 0 : WNOHANG);
    while (ended < 0 && errno == EINTR);
    if (ended == 0) return false;
    if (ended == pid && status != 0)
      print_to(stderr, "--on-finding: {} ended with {} {}\n", printable(command_),
               WIFEXITED(status) ? "status" : "signal", WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return true;
  });
}

FindingCommand::~FindingCommand() {
  collect(true);
}

}  // namespace moescope
