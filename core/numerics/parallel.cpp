#include "core/numerics/parallel.h"

#include <atomic>
#include <cstdlib>
#include <memory>
#include <new>
#include <thread>

namespace moescope {
namespace {

std::atomic<int> requested_threads{0};

int hardware_threads() {
#ifdef _OPENMP
  return omp_get_num_procs();
#else
  return 1;
#endif
}

struct FreeAligned {
  void operator()(void* p) const { std::free(p); }
};

}  // namespace

int num_threads() {
  const int requested = requested_threads.load(std::memory_order_relaxed);
  static const int hardware = hardware_threads();
  return requested > 0 ? requested : hardware;
}

void set_num_threads(int threads) {
  requested_threads.store(std::max(threads, 0), std::memory_order_relaxed);
}

void* thread_scratch_bytes(std::size_t bytes) {
  thread_local std::unique_ptr<void, FreeAligned> memory;
  thread_local std::size_t capacity = 0;
  if (bytes > capacity) {
    const std::size_t rounded = (bytes + 4095) / 4096 * 4096;
    memory.reset(std::aligned_alloc(64, rounded));
    if (!memory) throw std::bad_alloc();
    capacity = rounded;
  }
  return memory.get();
}

}  // namespace moescope
