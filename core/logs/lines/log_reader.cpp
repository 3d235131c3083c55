#include "core/logs/lines/log_reader.h"

#include <algorithm>
#include <utility>

#include "core/files/text/json_line.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/words.h"
#include "core/logs/lines/json_record.h"
#include "core/logs/lines/text_log.h"

namespace moescope {

namespace {

constexpr std::size_t kLongestSettings = std::size_t{1} << 20, kMaxLinesOfObject = 10000;

}  // namespace

struct LogReader::State {
  State(std::string source, ImportOptions options)
      : runs(std::move(source), std::move(options), false, "line"), json(runs), text(runs) {}

  LogRuns runs;
  JsonRecords json;
  JsonLines parser;
  TextLogReader text;
  enum class Form { unknown, json, text } form = Form::unknown;
  std::int64_t lines = 0, lines_of_text = 0;  // all lines; lines of printed text that have figures of a step
  std::int64_t last_bad_line = 0;
  std::string object;           // lines of an indented object
  std::string last_checkpoint;  // its name, or the number of lines with figures before it
  std::size_t object_lines = 0;

  BadLines& bad() { return runs.context().bad; }
  std::optional<std::string_view> whole_object(std::string_view read);
  template <class Take>
  void read(Take take);
  void read_json(std::string_view line);
  void take(const JsonFields& fields, std::string_view line, bool is_whole_line, std::optional<std::int64_t> step = {});
  void read_text(std::string_view line);
};

// Calls `take`, and counts the first object of a line that cannot be read.
template <class Take>
void LogReader::State::read(Take take) {
  try {
    take();
  } catch (const Unreadable& unreadable) {
    if (std::exchange(last_bad_line, lines) != lines) runs.count_bad(lines, unreadable);
  }
}

void LogReader::State::take(const JsonFields& fields, std::string_view line, bool is_whole_line,
                            std::optional<std::int64_t> step) {
  LogRecord record = json.record_of(fields, lines, line.size());
  if (step) record.add("step", static_cast<double>(*step));
  if (runs.has_step(record)) {
    if (form == Form::unknown) form = Form::json;
    if (!is_closing(record)) runs.take(record);
    return;
  }
  if (is_whole_line && form == Form::unknown && (runs.has_loss(record) || text.wraps_text(line))) {
    runs.count(record);  // for the account: one of its names may be the step
    throw Unreadable("no step");
  }
  if (line.size() > kLongestSettings) throw Unreadable("settings of more than 1 MB");
  if (!is_closing(record)) runs.describe(record, [&] { return JsonRecords::stated_run(fields); });
}

void LogReader::State::read_json(std::string_view line) {
  read([&] { take(parser.parse(line), line, true); });
}

// Reads a line of printed text, or a line that is not JSON while the form of the log is unknown.
void LogReader::State::read_text(std::string_view line) {
  const auto found = [&] {
    if (form != Form::text) {  // of lines before the first step
      bad() = BadLines();
      last_bad_line = 0;
    }
    form = Form::text;
  };
  lines_of_text += text.read(line, [&](LogRecord& record) {
    found();
    record.place = lines;
    read([&] { runs.take(record); });
  });
  const auto saved = form == Form::text ? saved_checkpoint(line) : std::nullopt;
  if (!saved || runs.runs().empty()) return;
  // Every rank, and the begin and the end of saving, may have a line.
  const std::string checkpoint = saved->name.empty() ? std::to_string(lines_of_text) : saved->name;
  if (std::exchange(last_checkpoint, checkpoint) == checkpoint) return;
  // The steps of numbered dicts are not those that the trainer counts.
  runs.runs().back().add_checkpoint(saved->name, text.is_numbered() ? std::nullopt : saved->step);
}

// Joins the lines of an indented object, which begins with a line "{" and ends with a line "}". Returns the whole
// object, or a line that is outside such objects; nullopt if the object is not complete yet.
std::optional<std::string_view> LogReader::State::whole_object(std::string_view read) {
  const std::size_t end = read.find_last_not_of(" \t\r,");
  const std::string_view plain = end == std::string_view::npos ? read : read.substr(0, end + 1);
  if (form == Form::text || (object_lines == 0 && plain != "{")) return read;
  if (object_lines > 0 && !read.starts_with(' ') && !read.starts_with('\t') && !read.starts_with('}')) {
    object_lines = 0;
    bad().add(lines - 1, "not JSON, or cut off");
    return read;
  }
  if (object_lines == 0) object.clear();
  object += read;
  const bool ends = plain == "}";
  if (!ends && ++object_lines < kMaxLinesOfObject && object.size() < kLongestSettings) return std::nullopt;
  object_lines = 0;
  if (ends) object.resize(object.rfind('}') + 1);
  return object;
}

LogReader::LogReader(std::string source, ImportOptions options)
    : state_(std::make_unique<State>(std::move(source), std::move(options))) {}
LogReader::~LogReader() = default;
LogReader::LogReader(LogReader&&) noexcept = default;

void LogReader::read_line(std::string_view line) {
  State& state = *state_;
  if (++state.lines == 1) line = without_byte_order_mark(line);
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  const auto whole = state.whole_object(line);
  if (!whole) return;
  const std::int64_t bad_before = state.bad().count();
  if (state.form != State::Form::text) state.read_json(*whole);
  const bool is_json = state.form == State::Form::json || state.bad().count() == bad_before;
  if (state.form == State::Form::text || !is_json) state.read_text(*whole);
}

void LogReader::read_object(const JsonFields& object, std::optional<std::int64_t> step) {
  ++state_->lines;
  state_->read([&] { state_->take(object, {}, false, step); });
}

void LogReader::refuse_line(std::string reason) {
  state_->bad().add(++state_->lines, std::move(reason));
}

void LogReader::finish_step() {
  state_->runs.show_steps();
}

Imported LogReader::finish() {
  Imported imported = state_->runs.finish(state_->lines);
  imported.remarks = remarks();
  imported.account = account();
  return imported;
}

ImportAccount LogReader::account() const {
  ImportAccount account = state_->runs.account();
  if (account.program.empty() && state_->text.is_of_trainer()) account.program = "Hugging Face Trainer";
  if (state_->text.of_other_ranks() > 0)
    account.left_out.push_back(
        {counted(state_->text.of_other_ranks(), "line", "lines"), "of other ranks than the one whose values are read"});
  return account;
}

std::vector<std::shared_ptr<History>> LogReader::histories() const {
  return state_->runs.histories();
}
std::shared_ptr<History> LogReader::history() const {
  const auto all = histories();
  return all.empty() ? nullptr : all.front();
}
std::int64_t LogReader::lines() const {
  return state_->lines;
}
std::int64_t LogReader::steps() const {
  std::int64_t steps = 0;
  for (const RunBuilder& run : state_->runs.runs()) steps += run.steps();
  return steps;
}

bool LogReader::is_whole(std::string_view line) const {
  if (line.find('\r') != std::string_view::npos || state_->text.is_numbered()) return false;
  if (state_->form == State::Form::text) return TextLogReader(state_->runs).read(line);
  try {
    JsonLines().parse(line);
    return true;
  } catch (const Unreadable&) {
    return false;
  }
}

namespace {

bool have_same_shape(const RunInfo& a, const RunInfo& b) {
  const bool same_experts = a.n_experts == b.n_experts || a.n_experts == 0 || b.n_experts == 0;
  return same_experts && (a.moe_layers == b.moe_layers || a.moe_layers.empty() || b.moe_layers.empty());
}

}  // namespace

bool LogReader::goes_on_from(const LogReader& earlier) const {
  return std::ranges::all_of(state_->runs.runs(), [&](const RunBuilder& run) {
    if (!run.imported()) return true;
    const auto& all_before = earlier.state_->runs.runs();
    const auto before = std::ranges::find_if(all_before, [&](const RunBuilder& other) {
      return other.imported() && other.number == run.number && other.name() == run.name();
    });
    if (before == all_before.end() || !have_same_shape(run.info(), before->info())) return false;
    if (state_->text.is_numbered()) return run.first_epoch() >= 0 && run.first_epoch() >= before->last_epoch();
    return run.imported()->history()->steps().first > before->imported()->history()->steps().last;
  });
}

std::vector<std::string> LogReader::remarks() const {
  const TextLogReader& text = state_->text;
  std::vector<std::string> of_text;
  if (state_->form == State::Form::text) {
    of_text.push_back("read as printed lines: " + std::to_string(state_->lines_of_text) + " of " +
                      std::to_string(state_->lines) + " have figures of a step");
    if (text.of_other_ranks() > 0)
      of_text.push_back("left out: " + counted(text.of_other_ranks(), "line", "lines") + " of other ranks");
    if (text.is_numbered())
      of_text.push_back("its lines have no step: they are numbered 1, 2, ... in their order" +
                        std::string(text.is_of_trainer() ? " (trainer_state.json has the steps)" : ""));
  }
  return state_->runs.remarks(of_text);
}
const BadLines& LogReader::bad() const {
  return state_->bad();
}

}  // namespace moescope
