#include "core/files/import_events.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <stdexcept>

#include "core/files/event_records.h"
#include "core/files/tag_map.h"
#include "core/io/input_file.h"
#include "core/io/text_escape.h"
#include "core/io/unreadable.h"
#include "tensorboard.pb.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;
namespace pb = tensorboard;

constexpr std::size_t kShownTags = 8;
constexpr std::uint64_t kMaxEventBytes = std::uint64_t{8} << 30;

enum DataType {
  kFloat = 1,
  kDouble = 2,
  kInt32 = 3,
  kUint8 = 4,
  kInt8 = 6,
  kInt64 = 9,
  kBool = 10,
  kBfloat16 = 14,
  kHalf = 19,
  kUint32 = 22
};

float from_half(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, mantissa = bits & 1023;
  const float sign = bits >> 15 ? -1.0f : 1.0f;
  if (exponent == 31) return mantissa ? std::nanf("") : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(1024 + mantissa), exponent - 25);
}

float from_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(std::uint32_t{bits} << 16);
}

template <class T, class Convert>
std::vector<double> from_bytes(const std::string& bytes, Convert convert) {
  std::vector<double> values(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof value, sizeof value);
    values[i] = static_cast<double>(convert(value));
  }
  return values;
}

template <class List, class Convert>
std::vector<double> from_list(const List& list, Convert convert) {
  std::vector<double> values;
  for (const auto& value : list) values.push_back(static_cast<double>(convert(value)));
  return values;
}

std::vector<std::size_t> shape_of(const pb::Tensor& tensor) {
  std::vector<std::size_t> shape;
  std::size_t elements = 1;
  for (const auto& dim : tensor.tensor_shape().dim()) {
    if (dim.size() < 0 || static_cast<std::uint64_t>(dim.size()) > kMaxImportedLoads)
      throw Unreadable("tensor: too large");
    shape.push_back(static_cast<std::size_t>(dim.size()));
    elements *= shape.back();
    if (elements > kMaxImportedLoads) throw Unreadable("tensor: too large");
  }
  return shape;
}

// As many as the shape says.
std::vector<double> values_of(const pb::Tensor& tensor, std::size_t elements) {
  const std::string& bytes = tensor.tensor_content();
  const auto same = [](auto value) { return value; };
  const auto half = [](auto bits) { return from_half(static_cast<std::uint16_t>(bits)); };
  const auto bfloat16 = [](auto bits) { return from_bfloat16(static_cast<std::uint16_t>(bits)); };
  const bool raw = !bytes.empty();
  std::vector<double> values;
  switch (tensor.dtype()) {
    case kFloat:
      values = raw ? from_bytes<float>(bytes, same) : from_list(tensor.float_val(), same);
      break;
    case kDouble:
      values = raw ? from_bytes<double>(bytes, same) : from_list(tensor.double_val(), same);
      break;
    case kInt32:
      values = raw ? from_bytes<std::int32_t>(bytes, same) : from_list(tensor.int_val(), same);
      break;
    case kUint8:
      values = raw ? from_bytes<std::uint8_t>(bytes, same) : from_list(tensor.int_val(), same);
      break;
    case kInt8:
      values = raw ? from_bytes<std::int8_t>(bytes, same) : from_list(tensor.int_val(), same);
      break;
    case kInt64:
      values = raw ? from_bytes<std::int64_t>(bytes, same) : from_list(tensor.int64_val(), same);
      break;
    case kUint32:
      values = raw ? from_bytes<std::uint32_t>(bytes, same) : from_list(tensor.uint32_val(), same);
      break;
    case kHalf:
      values = raw ? from_bytes<std::uint16_t>(bytes, half) : from_list(tensor.half_val(), half);
      break;
    case kBfloat16:
      values = raw ? from_bytes<std::uint16_t>(bytes, bfloat16) : from_list(tensor.half_val(), bfloat16);
      break;
    default:
      throw Unreadable("tensor: of type " + std::to_string(tensor.dtype()) + ", which holds no numbers");
  }
  if (values.empty() && elements > 0) throw Unreadable("tensor: has no values");
  if (raw ? values.size() != elements : values.size() > elements) throw Unreadable("tensor: does not fill its shape");
  values.resize(elements, values.empty() ? 0.0 : values.back());
  return values;
}

// A histogram of expert numbers: the count of each expert. Buckets wider than one expert cannot be used.
std::vector<double> counts_of(const pb::Histogram& histogram) {
  if (histogram.bucket_size() != histogram.bucket_limit_size()) throw Unreadable("histogram: buckets without limits");
  std::vector<double> counts;
  double from = -INFINITY;
  for (int i = 0; i < histogram.bucket_size(); ++i) {
    const double to = histogram.bucket_limit(i), n = histogram.bucket(i);
    if (!(to >= from) || !(n >= 0)) throw Unreadable("histogram: limits do not rise");
    const double lowest = std::max(i == 0 ? std::max(0.0, histogram.min()) : std::floor(from) + 1, 0.0);
    const double highest = std::floor(std::min(to, histogram.max()));
    from = to;
    if (n == 0) continue;
    if (!(lowest == highest))
      throw Unreadable("histogram: a bucket of more than one expert, so that their loads are not known");
    if (highest >= kMaxImportedExperts) throw Unreadable("histogram: too many experts");
    const auto expert = static_cast<std::size_t>(highest);
    if (counts.size() <= expert) counts.resize(expert + 1);
    counts[expert] += n;
  }
  return counts;
}

// The values of one layer at one step; NaN: not in the file.
struct Layer {
  std::vector<double> load, utilization, bias;
  RouterFrame figures;
};
struct Step {
  TelemetryFrame figures;
  double wall = 0;
  std::map<int, Layer> layers;
};

void put(std::vector<double>& list, std::size_t place, double value) {
  if (list.size() <= place) list.resize(place + 1, std::nan(""));
  list[place] = value;
}

// The events of one run, put together by step.
class Run {
 public:
  explicit Run(const TagMap& tags) : tags_(&tags) {}

  void read_file(std::string_view bytes, BadLines& bad, const std::function<bool(std::size_t)>& progress);
  bool cancelled() const { return cancelled_; }
  bool understood() const { return !steps_.empty(); }
  const std::set<std::string>& unknown() const { return unknown_; }
  std::int64_t records() const { return records_; }
  std::shared_ptr<History> build(RunInfo info, const ImportOptions& options, BadLines& bad);

 private:
  void take(const pb::Event& event);
  void take(const pb::Event& event, const pb::Summary::Value& value);
  void take_experts(const TagMatch& match, Step& step, std::vector<std::size_t> shape, std::vector<double> values);
  std::size_t n_experts() const;

  const TagMap* tags_;
  std::map<std::int64_t, Step> steps_;
  std::map<std::string, std::optional<TagMatch>> known_;
  std::set<std::string> unknown_;
  std::int64_t records_ = 0;
  bool cancelled_ = false;
};

void Run::read_file(std::string_view bytes, BadLines& bad, const std::function<bool(std::size_t)>& progress) {
  while (!bytes.empty()) {
    std::string_view record;
    const RecordState state = take_record(bytes, record);
    if (state == RecordState::cut_off) return;  // the file is still being written
    ++records_;
    if (state == RecordState::bad_header)
      return bad.add(records_, "wrong checksum of its length: the rest of the file cannot be read");
    try {
      pb::Event event;
      if (state == RecordState::bad_record) throw Unreadable("wrong checksum of its bytes");
      if (!event.ParseFromArray(record.data(), static_cast<int>(std::min<std::size_t>(record.size(), INT32_MAX))))
        throw Unreadable("no event");
      take(event);
    } catch (const Unreadable& unreadable) {
      bad.add(records_, unreadable.what());
    }
    if (records_ % 1024 == 0 && progress && !progress(bytes.size())) {
      cancelled_ = true;
      return;
    }
  }
}

void Run::take(const pb::Event& event) {
  if (!event.has_summary()) return;
  if (event.step() < 0 || event.step() > 1'000'000'000'000'000) throw Unreadable("step: not from 0 on");
  std::string problem;
  for (const auto& value : event.summary().value()) {
    try {
      take(event, value);
    } catch (const Unreadable& unreadable) {  // the other values of the record are good
      problem = printable(value.tag().substr(0, 200)) + ": " + unreadable.what();  // a zero byte would end it
    }
  }
  if (!problem.empty()) throw Unreadable(problem);
}

void Run::take_experts(const TagMatch& match, Step& step, std::vector<std::size_t> shape, std::vector<double> values) {
  while (shape.size() > 1 && shape.front() == 1) shape.erase(shape.begin());
  const auto list = [&](int layer) -> std::vector<double>& {
    Layer& of = step.layers[layer];
    return match.rule->means == TagMeaning::tokens_per_expert ? of.load
           : match.rule->means == TagMeaning::utilization     ? of.utilization
                                                              : of.bias;
  };
  if (match.expert >= 0) {
    if (values.size() != 1) throw Unreadable("of one expert, but has " + std::to_string(values.size()) + " values");
    return put(list(std::max(0, match.layer)), static_cast<std::size_t>(match.expert), values[0]);
  }
  if (match.layer >= 0 || shape.size() <= 1) {
    list(std::max(0, match.layer)) = std::move(values);
    return;
  }
  if (shape.size() != 2)
    throw Unreadable("a tensor of " + std::to_string(shape.size()) + " dimensions, not layers by experts");
  if (shape[0] > kMaxImportedLayers) throw Unreadable("too many layers");
  for (std::size_t l = 0; l < shape[0]; ++l)
    list(static_cast<int>(l))
        .assign(values.begin() + static_cast<std::ptrdiff_t>(l * shape[1]),
                values.begin() + static_cast<std::ptrdiff_t>((l + 1) * shape[1]));
}

void Run::take(const pb::Event& event, const pb::Summary::Value& value) {
  const auto [known, is_new] = known_.try_emplace(value.tag());
  if (is_new) known->second = tags_->find(value.tag());
  if (!known->second) {
    if (unknown_.size() < 1000) unknown_.insert(value.tag());
    return;
  }
  const TagMatch& match = *known->second;
  std::vector<std::size_t> shape;
  std::vector<double> values;
  const bool figure = match.rule->means == TagMeaning::router_figure || match.rule->means == TagMeaning::step_figure;
  if (value.has_histo() && figure) {
    values = {value.histo().num() > 0 ? value.histo().sum() / value.histo().num() : std::nan("")};
  } else if (value.has_histo()) {
    if (match.rule->means != TagMeaning::tokens_per_expert || match.expert >= 0)
      throw Unreadable("a histogram, which does not give the load of each expert");
    values = counts_of(value.histo());
    shape = {values.size()};
  } else if (value.has_tensor()) {
    shape = shape_of(value.tensor());
    std::size_t elements = 1;
    for (const std::size_t extent : shape) elements *= extent;
    values = values_of(value.tensor(), elements);
  } else {
    values = {static_cast<double>(value.simple_value())};
  }
  for (double& each : values) each *= match.rule->scale;
  Step& step = steps_[event.step()];
  step.wall = event.wall_time();
  if (!figure) return take_experts(match, step, std::move(shape), std::move(values));
  if (values.size() != 1) throw Unreadable("a figure, but has " + std::to_string(values.size()) + " values");
  const auto number = static_cast<float>(values[0]);
  if (match.rule->router)
    step.layers[match.layer].figures.*match.rule->router = number;
  else
    step.figures.*match.rule->step = number;
}

std::size_t Run::n_experts() const {
  std::size_t experts = 0;
  for (const auto& [number, step] : steps_)
    for (const auto& [layer, of] : step.layers)
      experts = std::max({experts, of.load.size(), of.utilization.size(), of.bias.size()});
  return experts;
}

bool is_whole(const std::vector<double>& list, std::size_t experts) {
  return list.size() == experts && std::none_of(list.begin(), list.end(), [](double v) { return std::isnan(v); });
}

// Counts from shares: if the number of tokens is not known, a share of 1 becomes 10,000, which keeps u.
std::vector<std::uint32_t> to_counts(const std::vector<double>& values, double fair) {
  std::vector<std::uint32_t> counts;
  for (const double value : values)
    counts.push_back(static_cast<std::uint32_t>(std::clamp(std::round(value * fair), 0.0, 4294967295.0)));
  return counts;
}

std::shared_ptr<History> Run::build(RunInfo info, const ImportOptions& options, BadLines& bad) {
  constexpr double kFairShare = 10000;
  const std::size_t experts = n_experts();
  std::set<int> layers;
  for (const auto& [number, step] : steps_)
    for (const auto& [layer, of] : step.layers) layers.insert(layer);
  if (layers.size() * std::max<std::size_t>(1, experts) > kMaxImportedLoads)
    throw std::runtime_error(info.source + ": " + std::to_string(layers.size()) + " layers of " +
                             std::to_string(experts) + " experts are more than can be shown");
  info.moe_layers.assign(layers.begin(), layers.end());
  info.n_layers = layers.empty() ? 0 : *layers.rbegin() + 1;
  info.n_experts = static_cast<int>(experts);
  ImportedRun run(info, options);
  const double start = steps_.begin()->second.wall;
  for (auto& [number, step] : steps_) {
    TelemetryFrame frame = std::move(step.figures);
    frame.step = number;
    frame.wall_s = step.wall - start;
    for (auto& [layer, of] : step.layers) {
      RouterFrame router = std::move(of.figures);
      router.layer = layer;
      const bool some = !of.load.empty() || !of.utilization.empty();
      if (is_whole(of.load, experts))
        router.tokens_per_expert = to_counts(of.load, 1);
      else if (is_whole(of.utilization, experts))
        router.tokens_per_expert = to_counts(of.utilization, kFairShare);
      else if (some)
        bad.add(number, "loads of layer " + std::to_string(layer) + " at this step: not of all " +
                            std::to_string(experts) + " experts, which is what is shown");
      if (is_whole(of.bias, experts)) router.expert_bias.assign(of.bias.begin(), of.bias.end());
      frame.routers.push_back(std::move(router));
    }
    run.add(std::move(frame));
  }
  return run.history();
}

bool is_event_file(const fs::path& path) {
  return path.filename().string().find("tfevents") != std::string::npos;
}

// Event files by the folder that they lie in: a run each.
std::map<fs::path, std::vector<fs::path>> event_files(const fs::path& path) {
  std::map<fs::path, std::vector<fs::path>> found;
  if (!fs::is_directory(path)) {
    require_regular_file(path.string());
    found[path.parent_path()] = {path};
    return found;
  }
  for (const auto& entry : fs::recursive_directory_iterator(path, fs::directory_options::skip_permission_denied))
    if (entry.is_regular_file() && is_event_file(entry.path()))
      found[entry.path().parent_path()].push_back(entry.path());
  for (auto& [folder, files] : found) std::sort(files.begin(), files.end());  // their names begin with their time
  return found;
}

TagMap tags_for(const ImportOptions& options, const fs::path& folder) {
  if (!options.tags.empty()) return TagMap::load(options.tags);
  const fs::path beside = folder / "moescope-tags.toml";
  return fs::exists(beside) ? TagMap::load(beside.string()) : TagMap::built_in();
}

[[noreturn]] void refuse(const std::string& path, const std::set<std::string>& unknown, const BadLines& bad) {
  std::string message = path + ": ";
  if (unknown.empty()) {
    message += "holds no values";
    if (bad.count() > 0) message += "; " + bad.summary("record");
  } else {
    message += "none of its tags is known:";
    std::size_t shown = 0;
    for (const std::string& tag : unknown)
      if (++shown <= kShownTags) message += (shown > 1 ? ", \"" : " \"") + tag.substr(0, 100) + "\"";
    if (unknown.size() > kShownTags) message += ", ...";
    message += ". A mapping file, --tags FILE.toml or moescope-tags.toml beside the events, defines what tags mean";
  }
  throw std::runtime_error(message);
}

}  // namespace

Imported import_events(const std::string& path, const ImportOptions& options) {
  const auto by_folder = event_files(path);
  Imported imported;
  imported.unit = "record";
  double all = 1, before = 0;
  for (const auto& [folder, files] : by_folder)
    for (const fs::path& file : files) all += static_cast<double>(fs::file_size(file));
  std::set<std::string> unknown;
  for (const auto& [folder, files] : by_folder) {
    const TagMap tags = tags_for(options, folder);
    Run run(tags);
    for (const fs::path& file : files) {
      const std::string bytes = read_file(file.string(), kMaxEventBytes, "file of events");
      run.read_file(bytes, imported.bad, [&](std::size_t left) {
        return !options.progress || options.progress((before + static_cast<double>(bytes.size() - left)) / all);
      });
      before += static_cast<double>(bytes.size());
      if (run.cancelled()) return {};
    }
    imported.lines += run.records();
    unknown.insert(run.unknown().begin(), run.unknown().end());
    if (!run.understood()) continue;
    RunInfo info;
    info.run = options.run + static_cast<int>(imported.runs.size());
    info.name = by_folder.size() > 1 ? fs::relative(folder, path).string() : fs::path(path).filename().string();
    if (!fs::is_directory(path)) info.name = folder.filename().empty() ? info.name : folder.filename().string();
    info.source = path;
    imported.runs.push_back(run.build(std::move(info), options, imported.bad));
  }
  if (imported.runs.empty()) refuse(path, unknown, imported.bad);
  if (options.progress) options.progress(1);
  return imported;
}

bool read_event_bytes(std::string_view bytes, BadLines& bad) {
  Run run(TagMap::built_in());
  run.read_file(bytes, bad, {});
  if (!run.understood()) return false;
  run.build({}, {}, bad);
  return true;
}

}  // namespace moescope
