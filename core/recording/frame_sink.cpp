#include "core/recording/frame_sink.h"

#include <cassert>
#include <condition_variable>
#include <functional>
#include <future>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

namespace moescope {

struct FrameSink::State {
  using FramePtr = std::shared_ptr<const TelemetryFrame>;
  using Task = std::function<void(State&)>;

  State(const std::string& path, std::size_t budget) : array_budget_bytes(budget) {
    if (!path.empty()) writer = std::make_unique<RecordingWriter>(path);
    thread = std::thread([this] { run_until_stopped(); });
  }
  ~State() {
    push({});
    thread.join();
  }

  void push(Task task) {
    {
      const std::lock_guard lock(mutex);
      tasks.push_back(std::move(task));
    }
    pushed.notify_one();
  }

  void run_until_stopped() {
    while (true) {
      std::vector<Task> batch;
      {
        std::unique_lock lock(mutex);
        pushed.wait(lock, [this] { return !tasks.empty(); });
        batch.swap(tasks);
      }
      for (const Task& task : batch)
        if (task) task(*this);
      write_batch();
      if (!batch.back()) return;
    }
  }

  std::shared_ptr<History> history_of(int run) const {
    const auto history = histories.find(run);
    return history == histories.end() ? nullptr : history->second;
  }
  void take(FramePtr frame) {
    const auto history = history_of(frame->run);
    assert(history);
    if (!history) return;
    history->append(frame);
    if (writer) batch.push_back(std::move(frame));
  }
  void take(const Marker& marker) {
    write_batch();  // first, because a frame that rewinds the run deletes later markers
    if (const auto history = history_of(marker.run)) history->append(marker);
    record([&] { writer->write(marker); });
  }
  void take(const std::shared_ptr<History>& history) {
    write_batch();
    histories[history->info().run] = history;
    record([&] { writer->add_run(history->info()); });
  }
  void write_batch() {
    record([&] { writer->write(batch); });
    batch.clear();
  }

  // A disk error ends the recording, but not the training.
  template <class Write>
  void record(Write write) {
    if (!writer) return;
    try {
      write();
    } catch (const std::exception& failure) {
      const std::lock_guard lock(error_mutex);
      error = std::string("recording stopped: ") + failure.what();
      writer.reset();
    }
  }

  const std::size_t array_budget_bytes;
  std::mutex mutex;
  std::condition_variable pushed;
  std::vector<Task> tasks;  // protected by the mutex; an empty task ends the thread

  // The members below belong to the history thread.
  std::map<int, std::shared_ptr<History>> histories;
  std::unique_ptr<RecordingWriter> writer;
  std::vector<FramePtr> batch;  // appended, but not yet written

  mutable std::mutex error_mutex;
  std::string error;
  std::thread thread;  // last member, because the thread uses the members above
};

FrameSink::FrameSink(std::string recording_path, std::size_t array_budget_bytes)
    : state_(std::make_unique<State>(recording_path, array_budget_bytes)) {}
FrameSink::~FrameSink() = default;

std::shared_ptr<History> FrameSink::add_run(const RunInfo& info) {
  auto history = std::make_shared<History>(info, state_->array_budget_bytes);
  state_->push([history](State& state) { state.take(history); });
  return history;
}

void FrameSink::remove_run(int run) {
  state_->push([run](State& state) { state.histories.erase(run); });
}

void FrameSink::rewind(int run, std::int64_t step) {
  state_->push([run, step](State& state) {
    if (const auto history = state.history_of(run)) history->forget_from(step);
  });
}

void FrameSink::publish(TelemetryFrame frame) {
  auto published = std::make_shared<const TelemetryFrame>(std::move(frame));
  state_->push([published = std::move(published)](State& state) { state.take(published); });
}

void FrameSink::publish(Marker marker) {
  state_->push([marker = std::move(marker)](State& state) { state.take(marker); });
}

void FrameSink::publish_edited_probe(int run, TokenFrame probe) {
  state_->push([run, shared = std::make_shared<const TokenFrame>(std::move(probe))](State& state) {
    if (const auto history = state.history_of(run)) history->set_edited_probe(shared);
  });
}

void FrameSink::flush() {
  const auto flushed = std::make_shared<std::promise<void>>();  // shared: this call may return before set_value() has
  state_->push([flushed](State& state) {
    state.write_batch();
    flushed->set_value();
  });
  flushed->get_future().wait();
}

std::string FrameSink::error() const {
  const std::lock_guard lock(state_->error_mutex);
  return state_->error;
}

}  // namespace moescope
