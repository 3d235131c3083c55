#include "core/files/tensors/mapped_read.h"

#include <csetjmp>
#include <csignal>

namespace moescope {
namespace {

thread_local sigjmp_buf* volatile reader = nullptr;  // where this thread continues after SIGBUS, or nullptr
struct sigaction before {};

void on_bus_error(int) {
  if (reader) siglongjmp(*reader, 1);
  ::sigaction(SIGBUS, &before, nullptr);  // the access is repeated and reaches the previous handler
}

bool install() {
  struct sigaction action {};
  action.sa_handler = on_bus_error;
  action.sa_flags = SA_NODEFER;  // siglongjmp leaves the handler without returning
  return ::sigaction(SIGBUS, &action, &before) == 0;
}

}  // namespace

bool read_mapped(void (*read)(const void*), const void* argument) {
  [[maybe_unused]] static const bool installed = install();
  sigjmp_buf return_point;
  if (sigsetjmp(return_point, 0)) {
    reader = nullptr;
    return false;
  }
  reader = &return_point;
  read(argument);
  reader = nullptr;
  return true;
}

}  // namespace moescope
