#include "core/recording/frame_sink.h"

#include <atomic>
#include <cassert>
#include <future>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <variant>

namespace moescope {

namespace {

using FramePtr = std::shared_ptr<const TelemetryFrame>;
using NewRun = std::shared_ptr<History>;
using Flush = std::shared_ptr<std::promise<void>>;
struct RemovedRun {
  int run;
};
struct Rewind {
  int run;
  std::int64_t step;
};
using Item = std::variant<std::monostate, FramePtr, Marker, NewRun, RemovedRun, Rewind, Flush>;

struct Node {
  Item item;
  std::atomic<Node*> next{nullptr};
};

// Vyukov's queue for many producers and one consumer: a push is an exchange and a store. It starts with an empty node;
// the last node taken stays as the list's head.
class Queue {
 public:
  Queue() : head_(new Node), tail_(head_) {}
  ~Queue() {
    while (head_) {
      Node* next = head_->next;
      delete head_;
      head_ = next;
    }
  }
  void push(Item item) {
    Node* node = new Node{std::move(item)};
    tail_.exchange(node, std::memory_order_acq_rel)->next.store(node, std::memory_order_release);
  }
  // False: empty, or a push is half done; its wake comes after it.
  bool pop(Item& item) {
    Node* next = head_->next.load(std::memory_order_acquire);
    if (!next) return false;
    item = std::move(next->item);
    delete head_;
    head_ = next;
    return true;
  }

 private:
  Node* head_;               // the consumer's
  std::atomic<Node*> tail_;  // the producers'
};

}  // namespace

struct FrameSink::State {
  State(const std::string& path, std::size_t budget) : array_budget_bytes(budget) {
    if (!path.empty()) writer = std::make_unique<RecordingWriter>(path);
    thread = std::thread([this] { drain_until_stopped(); });
  }

  ~State() {
    stop = true;
    wake();
    thread.join();
  }

  void push(Item item) {
    queue.push(std::move(item));
    wake();
  }
  // 32 bits, which wait and notify on without a lock on Linux (a futex), and only if somebody waits.
  void wake() {
    wakes.fetch_add(1, std::memory_order_release);
    wakes.notify_one();
  }

  void drain_until_stopped();
  void drain();
  void take(FramePtr frame);
  void take(const Marker& marker);
  void take(const NewRun& history);
  void take(const Flush& flush);
  void write_batch();
  template <class Write>
  void record(Write write);

  Queue queue;
  std::atomic<std::uint32_t> wakes{0};  // modulo 2^32
  std::atomic<bool> stop{false};
  const std::size_t array_budget_bytes;

  // The history thread's.
  std::map<int, std::shared_ptr<History>> histories;
  std::unique_ptr<RecordingWriter> writer;
  std::vector<FramePtr> batch;  // appended, not yet written

  mutable std::mutex error_mutex;
  std::string error;
  std::thread thread;  // last: starts when all else is there
};

void FrameSink::State::drain_until_stopped() {
  while (true) {
    const std::uint32_t seen = wakes.load(std::memory_order_acquire);
    const bool stopping = stop;
    drain();
    if (stopping) return;
    wakes.wait(seen, std::memory_order_acquire);
  }
}

void FrameSink::State::drain() {
  for (Item item; queue.pop(item);) {
    if (auto* frame = std::get_if<FramePtr>(&item)) {
      take(std::move(*frame));
    } else if (auto* marker = std::get_if<Marker>(&item)) {
      take(*marker);
    } else if (auto* history = std::get_if<NewRun>(&item)) {
      take(*history);
    } else if (const auto* removed = std::get_if<RemovedRun>(&item)) {
      histories.erase(removed->run);
    } else if (const auto* rewind = std::get_if<Rewind>(&item)) {
      if (const auto history = histories.find(rewind->run); history != histories.end())
        history->second->forget_from(rewind->step);
    } else {
      take(std::get<Flush>(item));
    }
  }
  write_batch();
}

void FrameSink::State::take(FramePtr frame) {
  const auto history = histories.find(frame->run);
  assert(history != histories.end());
  if (history == histories.end()) return;
  history->second->append(frame);
  if (writer) batch.push_back(std::move(frame));
}

void FrameSink::State::take(const Marker& marker) {
  write_batch();  // a rewind forgets later markers: the order must stay
  const auto history = histories.find(marker.run);
  if (history != histories.end()) history->second->append(marker);
  record([&] { writer->write(marker); });
}

void FrameSink::State::take(const NewRun& history) {
  write_batch();
  histories[history->info().run] = history;
  record([&] { writer->add_run(history->info()); });
}

void FrameSink::State::take(const Flush& flush) {
  write_batch();
  flush->set_value();
}

void FrameSink::State::write_batch() {
  record([&] { writer->write(batch); });
  batch.clear();
}

// A disk that fails ends the recording, never the training.
template <class Write>
void FrameSink::State::record(Write write) {
  if (!writer) return;
  try {
    write();
  } catch (const std::exception& failure) {
    const std::lock_guard lock(error_mutex);
    error = std::string("recording stopped: ") + failure.what();
    writer.reset();
  }
}

FrameSink::FrameSink(std::string recording_path, std::size_t array_budget_bytes)
    : state_(std::make_unique<State>(recording_path, array_budget_bytes)) {}
FrameSink::~FrameSink() = default;

std::shared_ptr<History> FrameSink::add_run(const RunInfo& info) {
  auto history = std::make_shared<History>(info, state_->array_budget_bytes);
  state_->push(history);
  return history;
}

void FrameSink::remove_run(int run) {
  state_->push(RemovedRun{run});
}

void FrameSink::rewind(int run, std::int64_t step) {
  state_->push(Rewind{run, step});
}

void FrameSink::publish(TelemetryFrame frame) {
  state_->push(std::make_shared<const TelemetryFrame>(std::move(frame)));
}

void FrameSink::publish(Marker marker) {
  state_->push(std::move(marker));
}

void FrameSink::flush() {
  auto flush = std::make_shared<std::promise<void>>();
  std::future<void> written = flush->get_future();
  state_->push(std::move(flush));
  written.wait();
}

std::string FrameSink::error() const {
  const std::lock_guard lock(state_->error_mutex);
  return state_->error;
}

}  // namespace moescope
