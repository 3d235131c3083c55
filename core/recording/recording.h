// A run on disk: SQLite in WAL mode, one transaction per drained batch of frames, so that a killed process loses at
// most the step in flight. The format, column by column: schema.h.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/frame/frame.h"
#include "core/history/history.h"

namespace moescope {

// What a killed program leaves: all that was written so far, or nothing of use, which takes half the time.
enum class Durable { always, when_finished };

// Every failure throws std::runtime_error with the path and SQLite's message.
class RecordingWriter {
 public:
  // Creates the file. Replaces an earlier recording of that name, unless another program has it open; refuses any other
  // file.
  explicit RecordingWriter(const std::string& path, Durable durable = Durable::always);
  ~RecordingWriter();  // finishes, as far as the disk permits
  void finish();       // the file is complete and on the disk; nothing can be written to it any more
  void add_run(const RunInfo& info);
  // One transaction: all or nothing. A frame at or before the newest step of its run replaces what followed.
  void write(std::span<const std::shared_ptr<const TelemetryFrame>> frames);
  void write(const Marker& marker);
  void write(std::span<const Marker> markers);  // one transaction

 private:
  struct Database;
  template <typename Write>
  void in_transaction(Write write);
  std::unique_ptr<Database> db_;
};

// May open a recording that is still being written: load() then reads what there is, and load_new() what follows.
class RecordingReader {
 public:
  // Throws std::runtime_error: no such file, not a recording, another format version, damaged. The file is not trusted,
  // and never written to. `go_on` is called every few milliseconds; false ends opening with an error.
  explicit RecordingReader(const std::string& path, const std::function<bool()>& go_on = {});
  ~RecordingReader();
  const std::vector<RunInfo>& runs() const;
  // What is known to be missing, as text for the user: recording_file.h. Empty: nothing.
  const std::string& missing() const;
  // Fills a history of `run`; `progress` gets 0..1 and returns false to cancel, which returns nullptr. `as_run` is its
  // number where it is opened beside runs of other files; -1: the recording's.
  // Throws std::runtime_error on a damaged file, naming the row.
  std::shared_ptr<History> load(int run, const std::function<bool(double)>& progress = {},
                                std::size_t array_budget_bytes = std::size_t{512} << 20, int as_run = -1) const;
  // Whether load() of that run would take long; glance() takes less than a second.
  bool is_large(int run) const;
  // Like load(), with the scalars of every step, but layers and arrays of only kGlanceRows evenly spread steps.
  static constexpr std::int64_t kGlanceRows = 30000;
  std::shared_ptr<History> glance(int run, const std::function<bool(double)>& progress = {},
                                  std::size_t array_budget_bytes = std::size_t{512} << 20, int as_run = -1) const;
  // Appends what was written since then to the histories that load() returned; returns the number of steps and markers.
  // Costs next to nothing if there is nothing new. One thread at a time. Throws std::runtime_error as load() does.
  std::size_t load_new() const;
  // Calls `take` with every complete frame of `run` in the order written, and the share of the file read so far; `take`
  // returns false to stop. Throws as load().
  void read(int run, const std::function<bool(const std::shared_ptr<const TelemetryFrame>&, double)>& take) const;
  std::vector<Marker> markers(int run) const;

 private:
  struct Database;
  std::shared_ptr<History> load_every(int run, std::int64_t every, const std::function<bool(double)>& progress,
                                      std::size_t array_budget_bytes, int as_run) const;
  std::unique_ptr<Database> db_;
};

}  // namespace moescope
