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
#include "core/files/tagged_run.h"
#include "core/io/input_file.h"
#include "core/io/text_escape.h"
#include "core/io/unreadable.h"
#include "tensorboard.pb.h"

namespace moescope {

namespace {

namespace fs = std::filesystem;
namespace pb = tensorboard;

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

// Reads the events of one run.
class Run {
 public:
  explicit Run(const TagMap& tags) : tagged_(tags) {}

  void read_file(std::string_view bytes, BadLines& bad, const std::function<bool(std::size_t)>& progress);
  bool cancelled() const { return cancelled_; }
  std::int64_t records() const { return records_; }
  TaggedRun& tagged() { return tagged_; }

 private:
  void take(const pb::Event& event);
  void take(const pb::Event& event, const pb::Summary::Value& value);

  TaggedRun tagged_;
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

void Run::take(const pb::Event& event, const pb::Summary::Value& value) {
  const TagMatch* match = tagged_.find(value.tag());
  if (!match) return;
  std::vector<std::size_t> shape;
  std::vector<double> values;
  const bool figure = is_figure(*match);
  if (value.has_histo() && figure) {
    values = {value.histo().num() > 0 ? value.histo().sum() / value.histo().num() : std::nan("")};
  } else if (value.has_histo()) {
    if (match->rule->means != TagMeaning::tokens_per_expert || match->expert >= 0)
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
  tagged_.take(event.step(), event.wall_time(), *match, std::move(shape), std::move(values));
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

}  // namespace

Imported import_events(const std::string& path, const ImportOptions& options) {
  const auto by_folder = event_files(path);
  Imported imported;
  imported.bad = BadLines("record");
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
    unknown.insert(run.tagged().unknown().begin(), run.tagged().unknown().end());
    if (!run.tagged().understood()) continue;
    RunInfo info;
    info.run = options.run + static_cast<int>(imported.runs.size());
    info.name = by_folder.size() > 1 ? fs::relative(folder, path).string() : fs::path(path).filename().string();
    if (!fs::is_directory(path)) info.name = folder.filename().empty() ? info.name : folder.filename().string();
    info.source = path;
    imported.runs.push_back(run.tagged().build(std::move(info), options, imported.bad));
  }
  if (imported.runs.empty()) throw std::runtime_error(no_known_tags(path, unknown, imported.bad));
  if (options.progress) options.progress(1);
  return imported;
}

bool read_event_bytes(std::string_view bytes, BadLines& bad) {
  Run run(TagMap::built_in());
  run.read_file(bytes, bad, {});
  if (!run.tagged().understood()) return false;
  run.tagged().build({}, {}, bad);
  return true;
}

}  // namespace moescope
