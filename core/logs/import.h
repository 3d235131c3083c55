// Common parts of the readers of other programs' logs.
//
// A reader produces frames from its file. ImportedRun computes figures from the counts (MaxVio, CV, entropy, padding,
// windows) if the file does not have them, keeps the frames in a history and passes them on, for example to a
// recording. Values that a file does not have are missing, never 0.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/files/unreadable.h"
#include "core/frame/router_stats.h"
#include "core/logs/account_book.h"
#include "core/recording/history/history.h"

namespace moescope {

inline constexpr int kImportWindow = 50;  // steps of max_vio_window and dead_fraction if the file gives no window
// Larger sizes mean a damaged file, and nothing is allocated for them. These are the limits of recordings as well.
inline constexpr std::size_t kMaxImportedExperts = 65536, kMaxImportedLayers = 4096, kMaxImportedLoads = 1 << 20;
inline constexpr int kLastImportedLayer = to_int(kMaxImportedLayers) - 1;  // the first is 0
inline constexpr std::size_t kLongestImportedName = 4096;                  // bytes, as in recordings

struct BadLine {
  std::int64_t number = 0;  // line, or record of an event file, counted from 1
  std::string reason;
  bool in_part = false;  // the other values of the line were read
};

// Lines that could not be read, or only in part. All are counted; the first kKept are kept with their reasons.
class BadLines {
 public:
  static constexpr std::size_t kKept = 10000;
  BadLines() : BadLines("line") {}
  explicit BadLines(const char* unit) : unit_(unit) {}                      // unit: "line", "record"
  void add(std::int64_t number, std::string reason, bool in_part = false);  // truncates long reasons
  std::int64_t count() const { return count_; }
  std::int64_t in_part() const { return in_part_; }  // those of which the other values were read
  const std::vector<BadLine>& first() const { return first_; }
  // "3 lines could not be read, the first: line 7: not JSON, or cut off; 1 line could be read in part only, the first:
  // ..."; empty if there are no bad lines.
  std::string summary() const;
  std::string also() const;          // "; " and the summary; empty if there are no bad lines
  std::string first_reason() const;  // "; line 7: not JSON, or cut off"; empty if there are no bad lines
  std::string text() const;          // one bad line per line of text, then the number of further ones
  const char* unit() const { return unit_; }

 private:
  const char* unit_;
  std::string counted(std::int64_t count, const char* what, bool in_part) const;
  std::int64_t count_ = 0, in_part_ = 0;
  std::vector<BadLine> first_;
};

struct RoutedRows;  // experts of every token: core/logs/routing/routed_tokens.h

// Numbers that the user states for a file of routed experts; 0: not stated.
struct RoutedShape {
  int layers = 0, top_k = 0, experts = 0;
};
// Thrown if a file of routed experts can be read in several ways. The message names the missing number and its option.
class AmbiguousRouting : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct ImportOptions {
  int run = 0;  // number of the file's first run among all runs that are opened together
  std::size_t array_budget_bytes = std::size_t{512} << 20;
  std::function<bool(double)> progress;  // called with 0..1; returns false to cancel
  // on_run is called before the first frame of each run, on_frame and on_marker for each frame and marker, in the order
  // of the file.
  std::function<void(const RunInfo&)> on_run;
  std::function<void(const std::shared_ptr<const TelemetryFrame>&)> on_frame;
  std::function<void(const Marker&)> on_marker;
  // True if another program is writing the file. Then an unfinished last line is left for the next reading.
  bool growing = false;
  bool glance = false;  // load only a sample of large recordings, for a quick first view (RecordingReader::load)
  // Experts of run A's tokens, for flips and overlap if this file also has the experts of every token.
  std::shared_ptr<const RoutedRows> routes = nullptr;
  RoutedShape routed;
  std::string table_header;  // header of a table whose file begins with a row, because it was truncated
  std::string tags;          // mapping file (tag_map.h); empty: the file beside the log, if there is one
  // Texts of mapping files whose rules come before all others: what the user states about names of the log.
  std::vector<std::string> rules;
  // Names of the runs to read from a file with several runs; empty: all. More than `most_runs` runs are refused, by
  // most readers before reading (log_runs.h).
  std::vector<std::string> only;
  std::size_t most_runs = SIZE_MAX;
};

// Entries of a list of loads that are no experts, but sums of the other entries: the total of all, or of each rank.
struct SumsInLoad {
  std::size_t sums = 0;    // number of these entries; 0: none
  bool are_first = false;  // before the experts; else behind them
  bool operator==(const SumsInLoad&) const = default;
};

class ImportedRun {
 public:
  ImportedRun(RunInfo info, const ImportOptions& options);
  // Adds a frame. If its step is not after the newest one, its step and all later ones are dropped first.
  void add(TelemetryFrame frame);
  void add(Marker marker);
  // Adds further values to an earlier step, or adds the step if it is missing; later steps stay. Returns false if too
  // many steps followed, so that its place is no longer in memory.
  bool join(TelemetryFrame more, bool is_part = false);  // is_part: as of join_frames()
  std::size_t drop_from(std::int64_t step);              // drops this step and all later ones; returns their number
  const std::shared_ptr<History>& history() const { return history_; }
  const RunInfo& info() const { return history_->info(); }
  // Entries of the lists by expert: the experts, and the sums behind or before them if --experts states fewer.
  int listed_experts() const { return info().n_experts + to_int(stated_sums_); }
  std::int64_t steps() const { return steps_; }  // all that were added, also those dropped later
  bool has(std::int64_t step) const;
  std::vector<std::string> remarks() const;  // on values that cannot be right
  // Returns an account without rows: the numbers of the run, and where they were found. `stated`: what the log states.
  ImportAccount found(const RunInfo& stated = {}) const;

 private:
  void judge(RouterFrame& router, std::int64_t positions);
  void drop_placeholders(TelemetryFrame& frame);
  void drop_sums(TelemetryFrame& frame) const;
  std::string question_of_experts(int stated) const;  // what cannot be right about their number; empty: nothing
  std::string question_of_top_k() const;
  TelemetryFrame completed(TelemetryFrame frame) const;  // adds values that the run gives for all steps
  void publish(std::shared_ptr<const TelemetryFrame> frame);
  std::shared_ptr<History> history_;
  const ImportOptions* options_;
  std::map<int, LoadWindow> windows_;  // by layer
  std::int64_t last_step_ = -1, steps_ = 0;
  std::int64_t no_losses_ = 0;              // losses of -1, with which a rank without a loss stands for no value
  std::int64_t loads_ = 0, odd_loads_ = 0;  // loads of a layer and step; those whose sum is no multiple of top_k
  SumsInLoad sums_;                         // that all loads have
  std::size_t stated_sums_ = 0;             // entries of the lists that are no experts, as --experts states
  std::vector<std::int64_t> kept_steps_;    // steps that were not dropped
  std::deque<std::shared_ptr<const TelemetryFrame>> recent_;  // newest frames that were not dropped
};

// Returns an account of the numbers of a run only.
ImportAccount numbers_of(const History& history, const RunInfo& stated, const RoutedShape& shape);

// Appends a marker to the history and passes it to options.on_marker.
void append_marker(History& history, const ImportOptions& options, const Marker& marker);

// Throws std::runtime_error if the loads of a run are many times what its file has: a single wrong number must not make
// a small file take the memory of a large one. `entries`: rows of loads, or experts of tokens, that the file has;
// `largest`: where its largest numbers are.
void check_run_size(const RunInfo& info, std::size_t steps, std::size_t entries, const std::string& largest);

// Converts loads that are known up to a factor, such as shares, into counts: the fair share becomes 10,000. Throws
// Unreadable if one is negative, or none is above 0.
std::vector<std::uint32_t> counts_of_ratios(std::span<const float> ratios);

std::int64_t sum_of(std::span<const std::uint32_t> counts);

// Returns at most `max_count` names of at most `longest` bytes: "epoch, total_flos, ...".
std::string first_names(std::span<const std::string> names, std::size_t max_count, std::size_t longest);
// Returns "not shown: epoch, total_flos, ..." for names that the table of names does not have.
std::string not_shown_text(const std::set<std::string>& names);
// Returns the question whether a name is that of the layer, and how to answer it.
std::string layer_question(const std::string& name);
// Returns the reason to refuse a log with steps: "none of its names is known: ...".
std::string no_known_names(const std::set<std::string>& names);

// Adds the values of `more` to `frame`: figures, routers by layer, rows. A loss of exactly 0 replaces no other: the
// rank has none. `is_part`: the loads of both are parts of those of the step, of two ranks or microbatches, and are
// added.
void join_frames(TelemetryFrame& frame, TelemetryFrame&& more, bool is_part = false);

// Figures of a router that its loads give.
inline constexpr std::array kFiguresOfLoads = {
    &RouterFrame::max_vio,      &RouterFrame::max_vio_window, &RouterFrame::cv,
    &RouterFrame::entropy_norm, &RouterFrame::dead_fraction,  &RouterFrame::padding_fraction};

struct Imported {
  std::vector<std::shared_ptr<History>> runs;  // empty if cancelled
  std::int64_t lines = 0;
  BadLines bad;
  bool glanced = false;                   // true: the runs are a sample of the file (ImportOptions::glance)
  std::vector<std::string> remarks = {};  // for the user: restarts, unknown names
  std::shared_ptr<const RoutedRows> routes = nullptr;
  ImportAccount account = {};
};

using TakeLine = std::function<void(std::string_view line)>;  // throws Unreadable for a bad line

// Calls `take` with each line of the files, which are read as one log. Counts all lines in `imported.lines` and the bad
// ones, which include lines of more than `longest` bytes, in `imported.bad`. Skips empty lines. Returns false if
// `options.progress` cancelled. Throws std::runtime_error if a file cannot be read.
bool take_lines(const std::vector<std::filesystem::path>& files, std::size_t longest, const TakeLine& take,
                const ImportOptions& options, Imported& imported);

// Thrown if a log has no figure that is known, or is refused otherwise: "PATH: WHY". The account has its names, so that
// the user can say what they mean.
struct RefusedLog : std::runtime_error {
  RefusedLog(const std::string& path, const std::string& reason, ImportAccount log_account)
      : std::runtime_error(path + ": " + reason), account(std::move(log_account)) {
    account.path = path;
    account.refusal = reason;
  }
  ImportAccount account;
};

}  // namespace moescope
