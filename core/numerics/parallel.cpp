#include "core/numerics/parallel.h"

#include <sched.h>

#include <atomic>
#include <cassert>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "core/io/processors.h"

namespace moescope {
namespace {

std::atomic<int> requested_threads{0};
thread_local bool inside_loop = false;

// A waiting thread looks for work this long before it sleeps: longer than the gaps between the loops of a step.
constexpr std::chrono::microseconds kSpin{200};
constexpr int kLooksPerYield = 64;

inline void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

class Pool {
 public:
  ~Pool() { resize(0); }

  void run(int threads, int tasks, void (*call)(const void*, int), const void* body) {
    resize(threads - 1);
    call_ = call;
    body_ = body;
    finished_.store(0, std::memory_order_relaxed);
    tasks_.store(tasks, std::memory_order_relaxed);
    publish(tasks);
    work_off(0);
    wait_until_finished(tasks);
  }

 private:
  // Tasks that one thread takes first, so that loops over the same rows, one after the other, find them in the cache of
  // the same core. In one word, so that a claim checks all of it at once: number of the loop (24 bits), its task after
  // the share (20), the next one (20). call_ and body_ are read only after a claim, and stay until the claimed task is
  // finished.
  struct alignas(64) Share {
    std::atomic<std::uint64_t> tasks{0};
  };
  static constexpr int kTaskBits = 20;
  static constexpr std::uint64_t kTaskMask = (std::uint64_t{1} << kTaskBits) - 1;

  void publish(int tasks) {
    assert(static_cast<std::uint64_t>(tasks) <= kTaskMask);
    ++loop_;
    const auto all = static_cast<std::uint64_t>(tasks), shares = static_cast<std::uint64_t>(shares_.size());
    for (std::uint64_t i = 0; i < shares; ++i)
      shares_[i].tasks.store(loop_ << (2 * kTaskBits) | (all * (i + 1) / shares) << kTaskBits | all * i / shares,
                             std::memory_order_release);
    published_.store(loop_, std::memory_order_release);
    published_.notify_all();
  }

  // Claims and runs tasks until none is left, the thread's own share first; false: there was none.
  bool work_off(std::size_t own) {
    bool any = false;
    for (std::size_t i = 0; i < shares_.size(); ++i) any |= work_off(shares_[(own + i) % shares_.size()]);
    return any;
  }
  bool work_off(Share& share) {
    bool any = false;
    for (std::uint64_t work = share.tasks.load(std::memory_order_acquire);;) {
      const std::uint64_t next = work & kTaskMask, end = work >> kTaskBits & kTaskMask;
      if (next >= end) return any;
      if (!share.tasks.compare_exchange_weak(work, work + 1, std::memory_order_acq_rel, std::memory_order_acquire))
        continue;
      any = true;
      const int tasks = tasks_.load(std::memory_order_relaxed);
      call_(body_, static_cast<int>(next));
      if (finished_.fetch_add(1, std::memory_order_acq_rel) + 1 == tasks) finished_.notify_all();
      work = share.tasks.load(std::memory_order_acquire);
    }
  }

  void wait_until_finished(int tasks) {
    const auto waiting_since = std::chrono::steady_clock::now();
    for (int looks = 1;; ++looks) {
      const int finished = finished_.load(std::memory_order_acquire);
      if (finished == tasks) return;
      if (looks % kLooksPerYield) {
        relax();
      } else if (std::chrono::steady_clock::now() - waiting_since < kSpin) {
        sched_yield();
      } else {
        finished_.wait(finished, std::memory_order_acquire);  // ended by whoever finishes the last task
      }
    }
  }

  void serve(std::size_t own) {
    inside_loop = true;
    auto idle_since = std::chrono::steady_clock::now();
    for (int looks = 1; !stopping_.load(std::memory_order_acquire); ++looks) {
      const std::uint64_t seen = published_.load(std::memory_order_acquire);
      if (work_off(own)) {
        idle_since = std::chrono::steady_clock::now();
        continue;
      }
      if (looks % kLooksPerYield) {
        relax();
        continue;
      }
      sched_yield();
      // The loop that was `seen` has no task left; a new one changes it and ends the wait.
      if (std::chrono::steady_clock::now() - idle_since > kSpin) {
        published_.wait(seen, std::memory_order_acquire);
        idle_since = std::chrono::steady_clock::now();
      }
    }
  }

  void resize(int workers) {
    if (workers == static_cast<int>(workers_.size()) && !shares_.empty()) return;
    stopping_.store(true, std::memory_order_release);
    publish(0);
    for (std::thread& worker : workers_) worker.join();
    workers_.clear();
    shares_ = std::vector<Share>(static_cast<std::size_t>(workers) + 1);
    stopping_.store(false, std::memory_order_release);
    for (int i = 1; i <= workers; ++i) workers_.emplace_back([this, i] { serve(static_cast<std::size_t>(i)); });
  }

  std::vector<Share> shares_;                // of the caller, then of each worker
  std::atomic<std::uint64_t> published_{0};  // number of the newest loop
  std::atomic<int> tasks_{0}, finished_{0};
  std::atomic<bool> stopping_{false};
  std::uint64_t loop_ = 0;
  void (*call_)(const void*, int) = nullptr;
  const void* body_ = nullptr;
  std::vector<std::thread> workers_;
};

// The threads that a job of SideBySide has for itself; without: the process's.
struct Team {
  Pool* pool = nullptr;
  int threads = 1;
};
thread_local Team own_team;

// Twins of `small` and `mini-v3` with two threads each took a step 1.2 and 1.0 times as fast as one after the other
// with four, with eight each 1.6 and 1.4 times.
constexpr int kLeastShare = 2;

struct FreeAligned {
  void operator()(void* p) const { std::free(p); }
};

}  // namespace

int num_threads() {
  static const int usable = usable_processors();
  const int requested = requested_threads.load(std::memory_order_relaxed);
  return requested > 0 ? requested : usable;
}

void set_num_threads(int threads) {
  requested_threads.store(std::max(threads, 0), std::memory_order_relaxed);
}

void run_tasks(int tasks, void (*call)(const void* body, int task), const void* body) {
  static std::mutex one_loop;
  static Pool pool;
  std::unique_lock lock(one_loop, std::defer_lock);
  const Team team = own_team.pool ? own_team : Team{&pool, num_threads()};
  if (tasks > 1 && team.threads > 1 && !inside_loop && (own_team.pool || lock.try_lock())) {
    inside_loop = true;
    team.pool->run(team.threads, tasks, call, body);
    inside_loop = false;
    return;
  }
  for (int task = 0; task < tasks; ++task) call(body, task);
}

struct SideBySide::Teams {
  Pool leaders;  // a thread for each job
  std::vector<std::unique_ptr<Pool>> of_jobs;
};

SideBySide::SideBySide() : teams_(std::make_unique<Teams>()) {}
SideBySide::~SideBySide() = default;
SideBySide::SideBySide(SideBySide&&) noexcept = default;
SideBySide& SideBySide::operator=(SideBySide&&) noexcept = default;

int SideBySide::threads_for(int jobs) {
  const int share = num_threads() / std::max(1, jobs);
  return jobs > 1 && share >= kLeastShare ? share : 0;
}

void SideBySide::run(int jobs, const std::function<void(int)>& job) {
  const int share = threads_for(jobs);
  if (share == 0 || inside_loop || own_team.pool) {
    for (int i = 0; i < jobs; ++i) job(i);
    return;
  }
  while (static_cast<int>(teams_->of_jobs.size()) < jobs) teams_->of_jobs.push_back(std::make_unique<Pool>());
  const auto lead = [&](int i) {
    const bool was_inside = std::exchange(inside_loop, false);
    own_team = {teams_->of_jobs[static_cast<std::size_t>(i)].get(), share};
    job(i);
    own_team = {};
    inside_loop = was_inside;
  };
  teams_->leaders.run(
      jobs, jobs, [](const void* body, int i) { (*static_cast<const decltype(lead)*>(body))(i); }, &lead);
}

void* thread_scratch_bytes(std::size_t bytes) {
  thread_local std::unique_ptr<void, FreeAligned> memory;
  thread_local std::size_t capacity = 0;
  if (bytes > capacity || !memory) {
    const std::size_t rounded = (bytes / 4096 + 1) * 4096;
    memory.reset(std::aligned_alloc(64, rounded));
    if (!memory) throw std::bad_alloc();
    capacity = rounded;
  }
  return memory.get();
}

}  // namespace moescope
