#include "core/tensors/mapped_read.h"

#include <csetjmp>
#include <csignal>
#include <cstring>

namespace moescope {
namespace {

thread_local sigjmp_buf* volatile reader = nullptr;  // where this thread's copy goes on; nullptr: it copies nothing
struct sigaction before {};

void on_bus_error(int) {
  if (reader) siglongjmp(*reader, 1);
  ::sigaction(SIGBUS, &before, nullptr);  // the access is tried again, and then is that handler's
}

bool install() {
  struct sigaction action {};
  action.sa_handler = on_bus_error;
  action.sa_flags = SA_NODEFER;  // siglongjmp leaves the handler without an end
  return ::sigaction(SIGBUS, &action, &before) == 0;
}

// Runs `copy`, which reads mapped pages and owns nothing; false: they are not there any more.
template <class Copy>
bool run_guarded(Copy copy) {
  static const bool installed = install();
  (void)installed;
  sigjmp_buf here;
  if (sigsetjmp(here, 0)) {
    reader = nullptr;
    return false;
  }
  reader = &here;
  copy();
  reader = nullptr;
  return true;
}

}  // namespace

bool copy_mapped(const std::byte* from, std::byte* to, std::size_t bytes) {
  return bytes == 0 || run_guarded([=] { std::memcpy(to, from, bytes); });
}

bool gather_mapped(const std::byte* from, std::size_t step, std::size_t size, std::size_t count, std::byte* to) {
  return run_guarded([=] {
    for (std::size_t i = 0; i < count; ++i) std::memcpy(to + i * size, from + i * step, size);
  });
}

bool read_mapped(void (*read)(const void*), const void* argument) {
  return run_guarded([=] { read(argument); });
}

}  // namespace moescope
