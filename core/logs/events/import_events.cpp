// Reads TensorBoard event files (tensorboard.proto): the scalars, histograms and tensors of a training.
//
// A path is one event file, or a folder. The folder and each folder below it is a run if it has event files, which are
// read in the order of their names. A record with a wrong checksum is skipped; after a damaged header the rest of the
// file cannot be read. Both are counted. Restarts are found by steps and by session_log, whatever the file_version.
// Writers give the plugin of a tag with its first value only. In "histograms" a tensor [k, 3] holds buckets (from, to,
// count); plugins without numbers by layer or expert are refused; else the shape of the tensor decides.

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <map>
#include <span>
#include <stdexcept>

#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/tensors/tensor_file.h"
#include "core/logs/events/event_records.h"
#include "core/logs/log_readers.h"
#include "core/logs/runs/log_record.h"
#include "core/logs/runs/log_runs.h"
#include "tensorboard.pb.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;
namespace pb = tensorboard;

constexpr std::uint64_t kMaxEventBytes = std::uint64_t{8} << 30;
constexpr int kMaxTensorDimensions = 8;
constexpr int kDeepestFolder = 64;
constexpr int kSessionStart = 1;

// Numbers of TensorFlow's data types.
constexpr std::pair<int, DType> kTensorTypes[] = {
    {1, DType::f32}, {2, DType::f64},   {3, DType::i32},  {4, DType::u8},   {5, DType::i16},  {6, DType::i8},
    {9, DType::i64}, {14, DType::bf16}, {17, DType::u16}, {19, DType::f16}, {22, DType::u32}, {23, DType::u64}};

std::vector<double> doubles_in(std::span<const std::byte> bytes, DType dtype) {
  const std::size_t size = dtype_bits(dtype) / 8, count = bytes.size() / size;
  return TensorView{"tensor", dtype, {count}, bytes.first(count * size)}.doubles();
}

std::vector<std::size_t> shape_of(const pb::Tensor& tensor) {
  std::vector<std::size_t> shape;
  if (tensor.tensor_shape().dim_size() > kMaxTensorDimensions) throw Unreadable("tensor: of too many dimensions");
  for (const auto& dim : tensor.tensor_shape().dim()) {
    shape.push_back(dim.size());
    if (shape.back() > kMaxImportedLoads || tensor_bytes(DType::u8, shape).value_or(SIZE_MAX) > kMaxImportedLoads)
      throw Unreadable("tensor: too large");
  }
  return shape;
}

// Returns `elements` values. If the tensor lists fewer, the last one is repeated, as TensorFlow does.
std::vector<double> values_of(const pb::Tensor& tensor, std::size_t elements) {
  const auto* type = std::ranges::find(kTensorTypes, tensor.dtype(), &std::pair<int, DType>::first);
  if (type == std::end(kTensorTypes))
    throw Unreadable(fmt::format("tensor: of type {}, which is not read", tensor.dtype()));
  const bool raw = !tensor.tensor_content().empty();
  std::vector<double> values;
  if (raw) values = doubles_in(std::as_bytes(std::span(tensor.tensor_content())), type->second);
  if (!raw && tensor.half_val_size() > 0) {
    const std::vector<std::uint16_t> bits(tensor.half_val().begin(), tensor.half_val().end());
    values = doubles_in(std::as_bytes(std::span(bits)), type->second);
  }
  const auto take = [&](const auto& list) {
    if (values.empty()) values.assign(list.begin(), list.end());
  };
  take(tensor.float_val());  // a tensor has the list of its type only
  take(tensor.double_val());
  take(tensor.int_val());
  take(tensor.int64_val());
  take(tensor.uint32_val());
  take(tensor.uint64_val());
  if (values.empty() && elements > 0) throw Unreadable("tensor: has no values");
  if (raw ? values.size() != elements : values.size() > elements) throw Unreadable("tensor: does not fill its shape");
  values.resize(elements, values.empty() ? 0.0 : values.back());
  return values;
}

std::vector<ExpertBucket> buckets_of(const pb::Histogram& histogram) {
  if (histogram.bucket_size() != histogram.bucket_limit_size()) throw Unreadable("histogram: buckets without limits");
  std::vector<ExpertBucket> buckets;
  double from = -INFINITY;
  for (int i = 0; i < histogram.bucket_size(); ++i) {
    const double to = histogram.bucket_limit(i), n = histogram.bucket(i);
    if (!(to >= from) || !(n >= 0)) throw Unreadable("histogram: limits do not rise");
    const double lowest = std::max(i == 0 ? std::max(0.0, histogram.min()) : std::floor(from) + 1, 0.0);
    buckets.push_back({lowest, std::floor(std::min(to, histogram.max())), n});
    from = to;
  }
  return buckets;
}

// Returns the buckets of TensorFlow 2's tensor [k, 3]: from, to, count. `to` is inclusive in the last bucket only.
std::vector<ExpertBucket> buckets_of(const std::vector<std::size_t>& shape, const std::vector<double>& values) {
  if (shape.size() != 2 || shape[1] != 3) throw Unreadable("histogram: not a list of from, to and count");
  std::vector<ExpertBucket> buckets;
  for (std::size_t i = 0; i < values.size(); i += 3)
    buckets.push_back(bucket_between(values[i], values[i + 1], values[i + 2], i + 3 == values.size()));
  return buckets;
}

// Reads the events of one run.
class EventReader {
 public:
  explicit EventReader(RunBuilder& run) : run_(&run) {}

  // `label`: prefix of each reason in `bad`. `progress` is called with the number of bytes that are left. Returns false
  // if it cancelled.
  bool read_file(std::string_view bytes, const std::string& label, BadLines& bad,
                 const std::function<bool(std::size_t)>& progress);
  std::int64_t records() const { return records_; }

 private:
  void take(const pb::Event& event);
  void set(const pb::Summary::Value& value, NamedValue& to);
  void set_tensor(const pb::Tensor& tensor, const std::string& plugin, const TagMatch& match, NamedValue& to);

  RunBuilder* run_;
  std::map<std::string, std::string> plugins_;  // name of the plugin of each known tag
  std::int64_t records_ = 0;
};

bool EventReader::read_file(std::string_view bytes, const std::string& label, BadLines& bad,
                            const std::function<bool(std::size_t)>& progress) {
  for (std::int64_t number = 1; !bytes.empty(); ++number) {
    std::string_view record;
    const std::size_t before = bytes.size();
    const RecordState state = take_record(bytes, record);
    if (state == RecordState::cut_off) return true;  // the file is still being written
    ++records_;
    run_->has_read(before - bytes.size());
    if (state == RecordState::bad_header) {
      bad.add(number, label + "wrong checksum of its length: the rest of the file cannot be read");
      return true;
    }
    try {
      pb::Event event;
      if (state == RecordState::bad_record) throw Unreadable("wrong checksum of its bytes");
      if (!event.ParseFromArray(record.data(), to_int(std::min<std::size_t>(record.size(), INT32_MAX))))
        throw Unreadable("no event");
      take(event);
    } catch (const Unreadable& unreadable) {
      bad.add(number, label + unreadable.what(), is_in_part(unreadable));
    }
    if (number % 1024 == 0 && progress && !progress(bytes.size())) return false;
  }
  return true;
}

void EventReader::take(const pb::Event& event) {
  const bool starts = event.has_session_log() && event.session_log().status() == kSessionStart;
  if (!starts && !event.has_summary()) return;
  if (event.step() < 0 || event.step() > kLastStep) throw Unreadable("step: not from 0 to 10^15");
  if (starts) return run_->go_back_to(event.step());
  LogRecord record;
  record.place = records_;
  record.step = event.step();
  record.wall_s = event.wall_time();
  for (const auto& value : event.summary().value()) {
    NamedValue& added = record.add(value.tag().empty() ? value.node_name() : value.tag());
    try {
      set(value, added);
    } catch (const Unreadable& unreadable) {
      added.problem = record.keep(unreadable.what());
    }
  }
  run_->take(record);
}

void EventReader::set(const pb::Summary::Value& value, NamedValue& to) {
  const std::string& plugin =
      plugins_.try_emplace(std::string(to.name), value.metadata().plugin_data().plugin_name()).first->second;
  const TagMatch& match = run_->match_of(to.name, records_);
  const bool are_loads = match.rule && match.rule->means == TagMeaning::tokens_per_expert && match.expert < 0;
  if (value.has_simple_value()) {
    to.numbers = {static_cast<double>(value.simple_value())};
  } else if (value.has_histo() && match.rule && is_figure(match)) {
    to.numbers = {value.histo().num() > 0 ? value.histo().sum() / value.histo().num() : std::nan("")};
  } else if (value.has_histo()) {
    if (!are_loads) throw Unreadable("a histogram, which does not give the load of each expert");
    to.numbers = counts_of(buckets_of(value.histo()));
    to.is_list = true;
  } else if (value.has_tensor()) {
    set_tensor(value.tensor(), plugin, match, to);
  } else {
    throw Unreadable("neither a number nor a histogram nor a tensor");
  }
}

void EventReader::set_tensor(const pb::Tensor& tensor, const std::string& plugin, const TagMatch& match,
                             NamedValue& to) {
  if (is_one_of(plugin,
                {"pr_curves", "mesh", "images", "audio", "text", "hparams", "custom_scalars", "graphs", "projector"}))
    throw Unreadable("data of TensorBoard's plugin " + plugin + ", which have no values by step");
  std::vector<std::size_t> shape = shape_of(tensor);
  to.numbers = values_of(tensor, *tensor_bytes(DType::u8, shape));
  if (plugin == "histograms") {
    if (!match.rule || match.rule->means != TagMeaning::tokens_per_expert || match.expert >= 0)
      throw Unreadable("a histogram of buckets, which gives neither a mean nor the load of each expert");
    to.numbers = counts_of(buckets_of(shape, to.numbers));
    shape = {to.numbers.size()};
  }
  std::erase(shape, std::size_t{1});
  to.is_list = !shape.empty();
  if (shape.size() > 2) throw Unreadable(fmt::format("a tensor of {} dimensions, not layers by experts", shape.size()));
  if (shape.size() == 2) to.rows.assign(shape[0], shape[1]);
}

// Returns the event files of each folder; a folder is a run.
std::map<fs::path, std::vector<fs::path>> event_files(const fs::path& path) {
  std::map<fs::path, std::vector<fs::path>> found;
  if (!fs::is_directory(path)) {
    require_regular_file(path.string());
    found[path.parent_path()] = {path};
    return found;
  }
  visit_files_below(path, kDeepestFolder, [&](const fs::path& file) {
    if (is_event_file(file)) found[file.parent_path()].push_back(file);
    return true;
  });
  for (auto& [folder, files] : found) std::sort(files.begin(), files.end());  // names begin with the time
  return found;
}

// Returns the bytes of a file. If it is one of several and cannot be read, adds the error to `bad` and returns no
// bytes, so that the others are read.
std::string bytes_of_event_file(const fs::path& file, bool one_of_several, BadLines& bad) {
  try {
    return read_file(file.string(), kMaxEventBytes, "file of events");
  } catch (const std::runtime_error& error) {
    if (!one_of_several) throw;
    bad.add(0, error.what());
    return {};
  }
}

}  // namespace

bool is_event_file(const fs::path& path) {
  return path.filename().string().find("tfevents") != std::string::npos;
}

Imported import_events(const std::string& path, const ImportOptions& options) {
  const auto by_folder = event_files(path);
  const auto name_of = [&](const fs::path& folder) {
    if (by_folder.size() > 1 && !fs::equivalent(folder, path)) return folder.lexically_relative(path).string();
    const fs::path named = fs::is_directory(path) || folder.filename().empty() ? fs::path(path) : folder;
    return plain_path(named).filename().string();
  };
  std::vector<std::string> names;
  for (const auto& [folder, files] : by_folder) names.push_back(name_of(folder));
  ImportOptions chosen = options;
  chosen.most_runs = SIZE_MAX;  // folders without a known tag, such as those of hyperparameters, are not runs
  check_choice(path, names, chosen);
  LogRuns runs(path, options, true, "record");
  double all_files = 0, read_files = 0;
  for (const auto& [folder, files] : by_folder) all_files += files.size();
  std::deque<TagMap> maps;  // the runs refer to their rules
  std::int64_t records = 0;
  int shown = 0;
  for (const auto& [folder, files] : by_folder) {
    const std::string name = name_of(folder);
    if (!is_wanted(options, name)) continue;
    RunBuilder& run = runs.run(name, &maps.emplace_back(TagMap::for_log(options, folder.string())));
    EventReader reader(run);
    for (const fs::path& file : files) {
      BadLines& bad = runs.context().bad;
      const std::string bytes = bytes_of_event_file(file, files.size() > 1, bad);
      const std::string label = files.size() > 1 ? "of " + file.filename().string() + ": " : "";
      const auto progress = [&](std::size_t unread) {
        return !options.progress ||
               options.progress((read_files + 1 - static_cast<double>(unread) / bytes.size()) / all_files);
      };
      if (!reader.read_file(bytes, label, bad, progress)) return {};
      ++read_files;
    }
    records += reader.records();
    if (run.has_steps() && static_cast<std::size_t>(shown) == options.most_runs)
      throw TooManyRuns(path, names, options.most_runs);
    runs.end(run);
    shown += run.has_steps();
  }
  return runs.finish(records);
}

}  // namespace moescope
