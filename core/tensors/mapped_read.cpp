#include "core/tensors/mapped_read.h"

#include <csetjmp>
#include <csignal>
#include <cstring>

namespace moescope {
namespace {

thread_local sigjmp_buf* volatile reader = nullptr;  // place where this thread continues after SIGBUS; may be nullptr
struct sigaction before {};

void on_bus_error(int) {
  if (reader) siglongjmp(*reader, 1);
  ::sigaction(SIGBUS, &before, nullptr);  // the access is repeated and reaches that handler
}

bool install() {
  struct sigaction action {};
  action.sa_handler = on_bus_error;
  action.sa_flags = SA_NODEFER;  // siglongjmp leaves the handler without returning
  return ::sigaction(SIGBUS, &action, &before) == 0;
}

// Runs `copy`, which reads mapped pages and must not own anything; false if the pages no longer exist.
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
