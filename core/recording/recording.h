// A run on disk: SQLite in WAL mode, one transaction for each batch of frames, so that a killed process loses at most
// the current step. schema.h describes the columns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/frame/frame.h"
#include "core/recording/history/history.h"

namespace moescope {

// Contents of the file if the program is killed before finish(). always: everything that was written; when_finished:
// nothing usable, but writing takes half the time.
enum class Durable { always, when_finished };

// Every failure throws std::runtime_error with the path and SQLite's message.
class RecordingWriter {
 public:
  // Creates the file. Replaces an existing recording of that name unless another program has it open; refuses to
  // replace any other file.
  explicit RecordingWriter(const std::string& path, Durable durable = Durable::always);
  ~RecordingWriter();  // calls finish(); ignores errors of the disk
  void finish();       // completes and syncs the file; no writes may follow
  // Throws std::runtime_error if RecordingReader could not read a run of this size.
  void add_run(const RunInfo& info);
  // Writes all frames in one transaction, or none. A frame at or before the newest step of its run replaces that step
  // and later ones.
  void write(std::span<const std::shared_ptr<const TelemetryFrame>> frames);
  void write(const Marker& marker);
  void write(std::span<const Marker> markers);  // in one transaction

 private:
  struct Database;
  template <typename Write>
  void in_transaction(Write write);
  std::unique_ptr<Database> db_;
};

// Reads a recording that may still be written: load() reads the complete steps, load_new() the steps written since.
class RecordingReader {
 public:
  // Throws std::runtime_error if there is no such file, or if it is not a recording, has another format version or is
  // damaged. The file is untrusted and never written to. `go_on` is called every few milliseconds; false stops opening
  // with an error.
  explicit RecordingReader(const std::string& path, const std::function<bool()>& go_on = {});
  ~RecordingReader();
  const std::vector<RunInfo>& runs() const;
  // Returns a text for the user about missing parts (recording_file.h); empty if no part is known to be missing.
  const std::string& missing() const;
  // Returns the history of `run`. `progress` is called with 0..1 and returns false to cancel; load() then returns
  // nullptr. `as_run`: number of the run beside runs of other files; -1: its number in the recording. Throws
  // std::runtime_error that names the row if the file is damaged. `glance`: only kGlanceRows evenly spaced steps have
  // layers and arrays; all steps have their scalars.
  std::shared_ptr<History> load(int run, const std::function<bool(double)>& progress = {},
                                std::size_t array_budget_bytes = std::size_t{512} << 20, int as_run = -1,
                                bool glance = false) const;
  static constexpr std::int64_t kGlanceRows = 30000;
  // True if load() of that run would take long; a glance takes less than a second.
  bool is_large(int run) const;
  // Appends the steps and markers written since the last call, or since load(), to the histories that load() returned;
  // returns their number. Fast if there are none. Must not run in two threads at once. Throws std::runtime_error like
  // load().
  std::size_t load_new() const;
  // Calls `take` with every complete frame of `run` in the order written, and with the share of the file that has been
  // read; `take` returns false to stop. Throws std::runtime_error like load().
  void read(int run, const std::function<bool(const std::shared_ptr<const TelemetryFrame>&, double)>& take) const;
  std::vector<Marker> markers(int run) const;

 private:
  struct Database;
  std::unique_ptr<Database> db_;
};

}  // namespace moescope
