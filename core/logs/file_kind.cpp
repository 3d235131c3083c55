#include "core/logs/file_kind.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <iterator>
#include <set>
#include <stdexcept>

#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/tensors/open_tensors.h"
#include "core/files/tensors/torch_file.h"
#include "core/files/text/json_line.h"
#include "core/files/text/json_text.h"
#include "core/files/text/text_encoding.h"
#include "core/files/text/text_escape.h"
#include "core/files/text/words.h"
#include "core/frame/frame.h"
#include "core/logs/events/event_records.h"
#include "core/logs/lines/import_jsonl.h"
#include "core/logs/lines/printed_number.h"
#include "core/logs/lines/text_log.h"
#include "core/logs/log_readers.h"
#include "core/logs/standard_input.h"
#include "core/logs/table/table_form.h"
#include "core/recording/schema.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;

constexpr int kFilesLookedAt = 500;  // of a folder, for one that is text
constexpr int kDeepestRemark = 4;    // levels at which links out of a folder are reported
constexpr int kDeepestEvents = 4;
constexpr std::size_t kLookedAt = 4096, kNamedFiles = 4, kLongestShownName = 60;
constexpr std::size_t kTextLookedAt = std::size_t{1} << 20;
constexpr std::size_t kLongHeader = std::size_t{64} << 10;  // bytes read of a table, for its header
constexpr std::size_t kLongResponse = std::size_t{4} << 20;

// The application_id in SQLite's header identifies the program; a file without a complete header is identified by its
// name.
bool is_recording(std::string_view bytes, const std::string& suffix) {
  if (suffix == ".moescope") return true;
  return bytes.size() < kApplicationIdEnds ? suffix != ".db" : has_application_id(bytes);
}

// True if an indented object ends in a line of its own, and a further one follows.
bool has_further_object(const std::string& path) {
  const std::string bytes = beginning_of(path, kLongResponse);
  return bytes.find("\n}\n{") != std::string::npos || bytes.find("\n}\r\n{") != std::string::npos;
}

// True if the first line is an object, complete or longer than the bytes read, and a step is named in it or in the
// lines that were read after it.
bool begins_with_json_line(const std::string& path, const std::string& bytes) {
  if (bytes.empty() || bytes.front() != '{') return false;
  const std::size_t end = bytes.find('\n');
  const std::string line = bytes.substr(0, end);
  if (line.find_first_not_of("{ \r") == std::string::npos) return names_a_step(bytes) && has_further_object(path);
  if (end == std::string::npos && bytes.size() == kLookedAt) return names_a_step(line);
  try {
    JsonLines().parse(line);
  } catch (const Unreadable&) {
    return false;
  }
  return names_a_step(bytes);
}

// Looks at the beginning and the end, since a program may print much before its first step and after its last.
bool holds_text_log(const std::string& path, const TagMap& tags) {
  if (holds_printed_steps(beginning_of(path, kTextLookedAt), tags)) return true;
  InputFile file(path);
  if (file.size() <= kTextLookedAt || file.is_decoded()) return false;
  std::string bytes(kTextLookedAt, '\0');
  const off_t from = file.size() - std::min<std::uint64_t>(file.size(), kTextLookedAt);
  const ssize_t read_bytes = ::pread(file.descriptor(), bytes.data(), bytes.size(), from);
  return read_bytes > 0 && holds_printed_steps(std::string_view(bytes).substr(0, read_bytes), tags);
}

// True if the text is no prose: half of its words have a digit, or half of its lines with digits repeat one before
// in all but the numbers.
bool is_data(std::string_view text) {
  std::size_t words = 0, with_digits = 0, lines = 0, repeated = 0;
  std::set<std::string> forms;
  while (!text.empty()) {
    const std::string_view line = take_until(text, '\n');
    std::string form;  // the line without its numbers
    for (std::string_view unread = line; !unread.empty();) {
      const std::string_view word = take_until(unread, ' ');
      words += !word.empty();
      with_digits += std::ranges::any_of(word, is_digit);
      std::ranges::copy_if(word, std::back_inserter(form), [](char c) { return !is_digit(c); });
    }
    if (form.size() == line.size() - std::ranges::count(line, ' ')) continue;
    ++lines;
    repeated += !forms.insert(std::move(form)).second;
  }
  constexpr std::size_t kFewestLines = 8;
  return words > 0 && (2 * with_digits >= words || (lines >= kFewestLines && 2 * repeated >= lines));
}

constexpr const char* kNumbersWithoutStep = "has numbers, but no step";

// Returns why a known form of text is not read: "is YAML, which is not read: ..."; empty: it is another text.
std::string unread_text(const std::string& path) {
  const std::string bytes = beginning_of(path, kLookedAt), suffix = suffix_of(path);
  if (bytes.empty()) return "is empty";
  if (is_binary(bytes)) return {};
  std::string_view unread = without_byte_order_mark(bytes);
  const std::size_t begin = unread.find_first_not_of(" \t\r\n");
  const std::string_view text = unread.substr(std::min(begin, unread.size()));
  if (is_named_csv(path) || suffix == ".json" || text.starts_with("{\"") || text.starts_with("[{\""))
    return std::string("is ") + (is_named_csv(path) ? "a table" : "JSON") +
           " that is neither a log, as it names no step, nor counts of experts, as no name in it says that it counts "
           "tokens by expert, or they are not whole numbers";
  const std::string tag = in_lower_case(text.substr(0, text.find_first_of(" >")));
  if (is_one_of(tag, {"<?xml", "<!doctype", "<html", "<svg", "<table", "<div"}))
    return "is a page or picture (HTML, SVG) without lines of a log: save its numbers as CSV or JSON lines; in Python, "
           "pandas.read_html(\"" +
           printable(path) + "\")[0].to_csv(\"table.csv\") writes its first table";
  const std::string_view first = take_until(unread, '\n'), second = unread.substr(0, unread.find('\n'));
  const std::string_view time = first.substr(first.rfind(' ') + 1);
  if (time.size() >= 16 && std::ranges::all_of(time, is_digit) && first.find('=') < first.rfind(' '))
    return "is InfluxDB's line protocol, which is not read: export the figures as CSV with a column of the step";
  if (text.starts_with("E    #  ") || bytes.find("\nE    #  ") != bytes.npos)
    return "is what spaCy prints, whose losses are sums of its components and no cross-entropy of a token";
  const bool has_labels = first.find('{') < first.find("=\"") && first.find("\"} ") != std::string_view::npos;
  if (first.starts_with("# HELP ") || first.starts_with("# TYPE ") ||
      (has_labels && first.find("=\"") != std::string_view::npos))
    return "is a snapshot of Prometheus metrics, which has no steps and is not read: write the counts of experts as a "
           "table with the columns step, layer, expert and count";
  const bool is_list =
      first.starts_with("- ") && second.starts_with("  ") && second.find(": ") != std::string_view::npos;
  if (text.starts_with("shape: (") || text.find("\u2506") != text.npos)
    return "is a table that polars prints, which is not read: write it with write_csv()";
  if (text.starts_with("wandb: "))
    return "is what W&B prints, which has the last values only: open the folder of its run, wandb/run-...";
  const bool is_yaml = suffix == ".yaml" || suffix == ".yml" || trimmed(first, " \r") == "---" || is_list;
  if (!is_yaml && is_data(bytes))
    return std::string(kNumbersWithoutStep) +
           (has_any(in_lower_case(bytes), {"step ", "step:", "step=", "step\t"})
                ? " beside a figure in a form that is read: write lines such as \"step 12 loss 2.5\", or JSON lines"
                : " by a name that is known: if its lines or columns have one, name it \"step\", and the counts of "
                  "experts \"tokens_per_expert\"");
  if (!is_yaml) return {};
  return "is YAML, which is not read: in Python, json.dump(list(yaml.safe_load_all(open(\"" + printable(path) +
         "\")))[0], open(\"log.json\", \"w\")) writes a list of steps as JSON that is; without [0] for a document of "
         "each step";
}

// A lesson has a [[step]] or the key `teaches`; a config has neither.
bool is_lesson(const std::string& path) {
  InputFile file(path);
  bool title = false;
  for (std::string line; file.read_line(line, kLookedAt);) {
    const std::string_view text = without_byte_order_mark(line);
    if (text.starts_with("[[step]]")) return true;
    title = title || text.starts_with("teaches");
  }
  return title;
}

// One row for each FileKind.
struct Kind {
  FileKind kind;
  const char* name;
  Imported (*read)(const std::string&, const ImportOptions&) = nullptr;  // nullptr: not a log of another program
};
constexpr Kind kKinds[] = {
    {FileKind::recording, "recording"},
    {FileKind::training_log, "training log", import_jsonl},
    {FileKind::event_file, "TensorBoard events", import_events},
    {FileKind::load_table, "table of a run", import_table},
    {FileKind::wandb_run, "run of W&B", import_wandb},
    {FileKind::te_statistics, "statistics of TransformerEngine", import_te_statistics},
    {FileKind::mlflow_run, "run of MLflow", import_mlflow},
    {FileKind::routed_experts, "routed experts", import_routed_experts},
    {FileKind::text_log, "text log of a training", import_jsonl},
    {FileKind::trainer_state, "history of a training in JSON", import_trainer_state},
    {FileKind::expert_counts, "counts of experts", import_expert_counts},
    {FileKind::router_trace, "router trace", import_trace},
    {FileKind::part_files, "log in several files", import_part_files},
    {FileKind::tensors, "tensors"},
    {FileKind::config, "run config"},
    {FileKind::lesson, "lesson"},
    {FileKind::queue, "queue of candidates"},
    {FileKind::unread, "in a form that is not read"},
    {FileKind::text, "no log that MoEScope knows"},
};
static_assert(std::size(kKinds) == static_cast<std::size_t>(FileKind::text) + 1);

std::string missing_text(const std::string& path) {
  std::error_code error;
  const fs::path target = fs::read_symlink(path, error);
  return error ? std::string("No such file or directory")
               : "is a link to " + printable(target.string()) + ", which does not exist";
}

const Kind& kind_row(FileKind kind) {
  return *std::ranges::find(kKinds, kind, &Kind::kind);
}

}  // namespace

bool holds_runs(FileKind kind) {
  return kind == FileKind::recording || kind_row(kind).read;
}

const char* file_kind_name(FileKind kind) {
  return kind_row(kind).name;
}

namespace {

bool has_loads(const Imported& imported) {
  return std::ranges::any_of(imported.runs, [](const auto& run) { return run->info().n_experts > 0; });
}

// Returns rules for the names whose values look like loads of experts, empty if there are none. They say why, so that
// the loads are shown as assumed.
std::string assumed_rules(const ImportAccount& account) {
  const auto load = std::ranges::find_if(account.rows, [](const AccountRow& row) {
    return !row.is_shown && row.certainty == Certainty::by_shape && row.first_step >= 0;
  });
  return load != account.rows.end()
             ? "assumed_because = " + json_string(load->reason) + '\n' + tag_rule(load->pattern, load->means)
             : std::string();
}

// Reads a log. If no name of loads is known, but values look like loads, reads it again with these as loads. A log that
// is passed on, for example to a recording, is read once: nothing is written that is taken by its shape.
Imported read_log(const std::string& path, FileKind kind, const ImportOptions& options) {
  std::string rules;
  try {
    Imported imported = kind_row(kind).read(path, options);
    if (imported.runs.empty() || options.on_frame || has_loads(imported)) return imported;
    rules = assumed_rules(imported.account);
    if (rules.empty()) return imported;
  } catch (const RefusedLog& refused) {
    rules = options.on_frame ? std::string() : assumed_rules(refused.account);
    if (rules.empty()) throw;
  }
  ImportOptions assumed = options;
  assumed.rules.push_back(rules);
  return kind_row(kind).read(path, assumed);
}

bool holds_text(const fs::path& folder) {
  int files = 0;
  bool found = false;
  visit_files_below(folder, kDeepestRemark, [&](const fs::path& file) {
    try {
      const std::string path = file.string(), bytes = beginning_of(path, kLookedAt);
      found = !bytes.empty() && !is_binary(bytes) && unread_form(path).empty() && unread_text(path).empty();
    } catch (const std::runtime_error&) {  // cannot be read, as a pointer of Git LFS
    }
    return !found && ++files < kFilesLookedAt;
  });
  return found;
}

FileKind kind_of_folder(const std::string& path) {
  if (is_wandb_folder(path)) return FileKind::wandb_run;
  if (!visit_files_below(path, kDeepestEvents, std::not_fn(is_event_file))) return FileKind::event_file;
  if (!files_in(path, is_trace_name).empty()) return FileKind::router_trace;
  if (is_te_statistics_folder(path)) return FileKind::te_statistics;
  if (is_mlflow_run(path)) return FileKind::mlflow_run;
  if (is_expert_counts(path, {})) return FileKind::expert_counts;
  if (is_checkpoint_folder(path)) return FileKind::tensors;
  if (holds_wandb_runs(path)) return FileKind::wandb_run;
  if (!unread_form(path).empty()) return FileKind::unread;
  if (!part_files(path).empty()) return FileKind::part_files;
  return holds_text(path) ? FileKind::text : FileKind::unread;
}

}  // namespace

Imported import_log(const std::string& path, FileKind kind, const ImportOptions& options) {
  Imported imported = read_log(path, kind, options);
  if (imported.account.steps.value.empty() && !imported.runs.empty()) {  // of routed experts, which have no names
    ImportAccount account = numbers_of(*imported.runs[0], {}, options.routed);
    account.add(std::move(imported.account));
    imported.account = std::move(account);
  }
  imported.account.path = path;
  const std::string assumed = imported.account.assumption();
  for (const auto& run : imported.runs) {
    if (!assumed.empty() && run->info().n_experts > 0)
      append_marker(*run, options, {run->info().run, run->steps().first, kAssumptionMarker, assumed});
    if (const std::string& program = imported.account.program; !program.empty())
      append_marker(*run, options, {run->info().run, run->steps().first, kProgramMarker, program});
  }
  if (imported.bad.count() > 0)
    imported.account.left_out.push_back(
        {counted(imported.bad.count(), imported.bad.unit(), (std::string(imported.bad.unit()) + 's').c_str()),
         imported.bad.summary()});
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    if (std::string parts = parts_beside(path); !parts.empty()) imported.remarks.push_back(std::move(parts));
    return imported;
  }
  for (const fs::path& link : links_out_of(path, kDeepestRemark))
    imported.remarks.push_back(printable(link.lexically_relative(path).string()) +
                               " was not read: it is a link that leads out of the folder");
  return imported;
}

namespace {

// Describes a folder without a log and without text: its first files, and a link to nothing, as a cache has that was
// not completely downloaded.
std::string folder_text(const std::string& path) {
  std::string files, link;
  std::size_t found = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator it(path, error), end; !error && it != end && found < kNamedFiles;
       it.increment(error)) {
    const std::string name = printable(it->path().lexically_relative(path).string());
    if (it->is_symlink(error) && !fs::exists(*it, error) && link.empty())
      link = "; " + name + " " + missing_text(it->path().string());
    else if (it->is_regular_file(error))
      files += (found++ > 0 ? ", " : "") + name;
  }
  return "holds no log" + (files.empty() ? std::string(" and no file") : ", and no text to train on: " + files) + link;
}

// Describes a file of tensors in which there is no run.
std::string tensors_text(const std::string& path) {
  const TensorFile file = open_tensors(path);
  const auto names_of = [](const auto& entries) {
    std::string names;
    for (std::size_t i = 0; i < std::min<std::size_t>(entries.size(), kNamedFiles); ++i)
      names += (i > 0 ? ", '" : "'") + printable(entries[i].name.substr(0, kLongestShownName)) + '\'';
    return names + (entries.size() > kNamedFiles ? ", ..." : "");
  };
  if (!file.tensors().empty()) {
    const bool is_model =
        std::ranges::any_of(file.tensors(), [](const TensorView& tensor) { return tensor.name.ends_with("weight"); });
    return ": holds no run, but " + counted(std::ssize(file.tensors()), "tensor", "tensors") + ": " +
           names_of(file.tensors()) +
           (is_model ? ""
                     : ". Counts of experts are read under names such as expert_counts, the experts of tokens under "
                       "topk_ids");
  }
  if (file.skipped().empty())
    return ": holds neither a run nor a tensor. Plain numbers of Python are not read: save tensors, arrays or JSON";
  return ": holds no run, and nothing that is read: " + names_of(file.skipped()) + ' ' + file.skipped().front().reason;
}

}  // namespace

std::string no_log_text(const std::string& path, FileKind kind) {
  std::error_code error;
  if (kind == FileKind::tensors && !fs::is_directory(path, error)) return path + tensors_text(path);
  if (kind == FileKind::unread && fs::is_directory(path, error) && unread_form(path).empty())
    return path + ": " + folder_text(path);
  if (kind == FileKind::text)
    return path + ": is no log that MoEScope knows" +
           (named_standard_input(path) == path ? ". To train on it as text: moescope --data " + path : std::string());
  if (kind != FileKind::unread) return path + ": holds no run, but " + file_kind_name(kind);
  std::string form = unread_form(path);
  if (form.empty()) form = unread_text(path);
  return path + ": " +
         (form.empty() ? "is a binary file of no format that MoEScope knows: neither a log nor text" : form);
}

FileKind file_kind(const std::string& path) {
  return file_kind(path, ImportOptions{});
}

FileKind file_kind(const std::string& path, const ImportOptions& options) {
  std::error_code error;
  const auto status = fs::status(path, error);
  if (!fs::exists(status)) refuse(path, missing_text(path));
  if (fs::is_directory(status)) return kind_of_folder(path);
  const std::string suffix = suffix_of(path);
  const bool is_json_lines = suffix == ".jsonl" || suffix == ".ndjson";
  const std::string read = beginning_of(path, kLookedAt);
  const std::string bytes(without_byte_order_mark(read));
  if (is_binary(bytes)) InputFile(path).descriptor();  // only texts are read from a compressed file
  if (bytes.starts_with("SQLite format 3") && is_recording(bytes, suffix)) return FileKind::recording;
  if (begins_like_wandb(bytes)) return FileKind::wandb_run;
  if (begins_with_record(bytes)) return FileKind::event_file;
  if (suffix == ".moescope") return FileKind::recording;
  if (suffix != ".json" && is_expert_counts(path, bytes)) return FileKind::expert_counts;
  if (!unread_form(path).empty()) return FileKind::unread;
  if (bytes.starts_with("SQLite format 3")) return FileKind::mlflow_run;
  const bool is_longer = read.size() == kLookedAt && (suffix == ".json" || bytes.starts_with("[{"));
  const std::string whole = is_longer ? beginning_of(path, kMaxStateBytes) : read;
  const JsonHistory history = is_json_lines ? JsonHistory::none : json_history(without_byte_order_mark(whole));
  if (history == JsonHistory::steps) return FileKind::trainer_state;
  if (is_checkpoint_index(path)) return FileKind::tensors;
  if (is_routed_experts(path, bytes)) return FileKind::routed_experts;
  if (suffix == ".safetensors" || begins_like_npy(bytes) || begins_like_zip(bytes)) return FileKind::tensors;
  if (suffix == ".pt" || suffix == ".pth" || begins_like_pickle(bytes)) return FileKind::tensors;
  if (const std::string problem = encoding_problem(read); !problem.empty()) refuse(path, problem);
  if (begins_like_trace(bytes)) return FileKind::router_trace;
  if (is_te_statistics_name(fs::path(path).filename().string())) return FileKind::te_statistics;
  if (is_json_lines) return FileKind::training_log;
  if (suffix == ".queue") return FileKind::queue;
  if (suffix == ".toml") return is_lesson(path) ? FileKind::lesson : FileKind::config;
  if (is_event_file(path)) return FileKind::event_file;
  if (suffix == ".json" && history == JsonHistory::columns &&
      (whole.find("loss\"") != std::string::npos || !is_expert_counts(path, bytes)))
    return FileKind::trainer_state;
  const TagMap tags = TagMap::for_log(options, path);
  if (table_form(is_named_csv(path) ? beginning_of(path, kLongHeader) : read, is_named_csv(path), tags))
    return FileKind::load_table;
  if ((is_named_csv(path) || has_blocks(bytes)) && table_form(turned_table(path), true, tags))
    return FileKind::load_table;
  if (begins_with_json_line(path, bytes)) return FileKind::training_log;
  if (suffix == ".json" && is_expert_counts(path, bytes)) return FileKind::expert_counts;
  if (holds_text_log(path, tags)) return FileKind::text_log;
  if (unread_text(path).starts_with(kNumbersWithoutStep) && repeats_names(bytes)) return FileKind::text_log;
  return is_binary(bytes) || !unread_text(path).empty() ? FileKind::unread : FileKind::text;
}

std::vector<std::string> files_beside(const std::string& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return {};
  const FileKind kind = file_kind(path);
  if (kind == FileKind::wandb_run) return wandb_files(path);
  if (kind == FileKind::event_file) return {(fs::path(path).parent_path() / kTagsBeside).string()};
  return {};
}

}  // namespace moescope
