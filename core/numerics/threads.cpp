#include "core/numerics/threads.h"

#include <fmt/core.h>
#include <omp.h>

#include <atomic>
#include <cstdint>
#include <exception>
#include <mutex>
#include <utility>

#include "core/numerics/matrix_units.h"

#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void*);
extern "C" void __tsan_release(void*);
#endif

namespace moescope {
namespace {

std::atomic<int> requested_threads{0};
std::mutex team_in_use;

// State of the code that this thread runs.
thread_local int team_threads = 0;  // number of threads for its loops; 0 outside of a team
thread_local bool inside_loop = false;

// Fewest threads of a job. Measured: two twins of `small` and `mini-v3`, with two threads each, took a step 1.2 and 1.0
// times as fast as one after the other with four threads; with eight threads each, 1.6 and 1.4 times as fast.
constexpr int kMinShare = 2;

// Neighbouring tasks of a loop that one thread runs before others: rows that the thread wrote in one loop are still in
// its cache in the next loop of the same length. Threads that have finished their own share take tasks from other
// shares.
class alignas(64) Share {
 public:
  void set(int first, int end) {
    next_.store(first, std::memory_order_relaxed);
    end_ = end;
  }
  template <class Run>
  void work_off(const Run& run) {
    if (next_.load(std::memory_order_relaxed) >= end_) return;
    for (int task = next_.fetch_add(1, std::memory_order_relaxed); task < end_;
         task = next_.fetch_add(1, std::memory_order_relaxed))
      run(task);
  }

 private:
  std::atomic<int> next_{0};
  int end_ = 0;
};

int share_begin(int tasks, int share, int shares) {
  return to_int(std::int64_t{tasks} * share / shares);
}

// Tell ThreadSanitizer that writes before hand_over() are visible after take_over(), because it does not see how
// libgomp orders its tasks.
void hand_over([[maybe_unused]] void* work) {
#if defined(__SANITIZE_THREAD__)
  __tsan_release(work);
#endif
}
void take_over([[maybe_unused]] void* work) {
#if defined(__SANITIZE_THREAD__)
  __tsan_acquire(work);
#endif
}

class TeamThreads {
 public:
  explicit TeamThreads(int threads) : before_(std::exchange(team_threads, threads)) {}
  ~TeamThreads() { team_threads = before_; }
  TeamThreads(const TeamThreads&) = delete;

 private:
  int before_;
};

// The other threads of the team wait at the end of the region and run tasks there.
void start_team(const std::function<void()>& body) {
  std::unique_lock lock(team_in_use, std::try_to_lock);
  const int threads = lock ? num_threads() : 1;
  std::exception_ptr error;
#pragma omp parallel num_threads(threads)
#pragma omp masked
  {
    const TeamThreads team(threads);
    try {
      body();
    } catch (...) {
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

// Asks OpenMP for its number of threads before the first product, which sets it to 1 for OpenBLAS (gemm.cpp).
[[maybe_unused]] const int asked_at_start = num_threads();

}  // namespace

namespace {

// OpenMP's number, before its first product sets it to 1.
int openmp_threads() {
  static const int threads = std::min(omp_get_max_threads(), omp_get_thread_limit());
  return threads;
}

}  // namespace

std::string thread_limit_note() {
  if (openmp_threads() <= kMaxThreadCount) return {};
  return fmt::format("OMP_NUM_THREADS is {}: {} threads are used, the most that are allowed", openmp_threads(),
                     kMaxThreadCount);
}

int num_threads() {
  const int usable = std::clamp(openmp_threads(), 1, kMaxThreadCount);
  const int requested = requested_threads.load(std::memory_order_relaxed);
  return requested > 0 ? requested : usable;
}

void set_num_threads(int threads) {
  requested_threads.store(std::clamp(threads, 0, kMaxThreadCount), std::memory_order_relaxed);
}

void parallel_for(int tasks, const std::function<void(int)>& body) {
  int threads = 1;
  if (!inside_loop) threads = team_threads > 0 ? team_threads : num_threads();
  if (tasks <= 1 || threads == 1) {
    for (int task = 0; task < tasks; ++task) body(task);
    return;
  }
  if (team_threads == 0) return start_team([&] { parallel_for(tasks, body); });
  std::vector<Share> shares(threads);
  for (int i = 0; i < threads; ++i) shares[i].set(share_begin(tasks, i, threads), share_begin(tasks, i + 1, threads));
  // Starts as many OpenMP tasks as threads, each of which works through all shares, so that libgomp's lock is taken a
  // few times per loop rather than once per task.
  const bool portable = PortableProducts::in_use();
  hand_over(&shares);
#pragma omp taskloop grainsize(1) shared(shares, body)
  for (std::int64_t i = 0; i < threads; ++i) {
    take_over(&shares);
    const PortableProducts products(portable);
    inside_loop = true;
    const auto own_share = static_cast<std::size_t>(omp_get_thread_num());
    for (std::size_t other = 0; other < shares.size(); ++other)
      shares[(own_share + other) % shares.size()].work_off(body);
    inside_loop = false;
    hand_over(&shares);
  }
  take_over(&shares);
}

void with_team(const std::function<void()>& body) {
  team_threads > 0 || inside_loop ? body() : start_team(body);
}

int threads_per_job(int jobs) {
  const int share = num_threads() / std::max(1, jobs);
  return jobs > 1 && share >= kMinShare ? share : 0;
}

// Runs each job on `share` threads of the team. It is a separate function, because Clang 14 crashes on a taskloop
// inside a lambda.
static void run_in_team(int jobs, int share, const std::function<void(int)>& job) {
  if (team_threads == 1) {  // another thread has the team
    for (int i = 0; i < jobs; ++i) job(i);
    return;
  }
  char order = 0;
  hand_over(&order);
#pragma omp taskloop grainsize(1) shared(job, order)
  for (std::int64_t i = 0; i < jobs; ++i) {
    take_over(&order);
    const TeamThreads team(share);
    job(to_int(i));
    hand_over(&order);
  }
  take_over(&order);
}

void side_by_side(int jobs, const std::function<void(int)>& job) {
  const int share = threads_per_job(jobs);
  if (share == 0 || team_threads > 0 || inside_loop) {
    for (int i = 0; i < jobs; ++i) job(i);
    return;
  }
  start_team([&] { run_in_team(jobs, share, job); });
}

void* thread_scratch_bytes(std::size_t bytes) {
  thread_local AlignedBuffer<std::byte> memory;
  return memory.sized(bytes);
}

}  // namespace moescope
