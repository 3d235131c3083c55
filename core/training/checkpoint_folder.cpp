#include "core/training/checkpoint_folder.h"

#include <fmt/core.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string_view>

#include "core/files/input_file.h"
#include "core/files/tensors/safetensors.h"
#include "core/files/text/words.h"
#include "core/files/whole_file.h"
#include "core/training/trainer.h"

namespace moescope {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestFileName = 255;
constexpr const char* kRunsFile = "runs.txt";

// Returns the step of a folder with this name; -1 if it is not the name of a step's folder.
std::int64_t step_of(const std::string& name) {
  std::int64_t step = -1;
  return read_number(name, step) && step >= 0 ? step : -1;
}

bool is_checkpoint_file(std::string_view name) {
  return name.ends_with(".safetensors") || name == kRunsFile;
}

std::string step_folder(const std::string& folder, std::int64_t step) {
  return (fs::path(folder) / std::to_string(step)).string();
}

// Returns the files in the order of runs.txt; `files` must be sorted by name.
std::vector<std::string> in_run_order(const fs::path& runs_txt, const std::vector<std::string>& files) {
  if (!fs::exists(runs_txt)) return files;
  InputFile order(runs_txt);
  std::vector<std::string> named;
  for (std::string name; order.read_line(name, kLongestFileName);)
    named.push_back((runs_txt.parent_path() / name).string());
  std::vector<std::string> sorted = named;
  std::sort(sorted.begin(), sorted.end());
  if (sorted == files) return named;
  throw std::runtime_error(runs_txt.string() +
                           ": damaged checkpoint: it does not name the runs that are there, each once: " +
                           joined(files, ", ", [](const fs::path& file) { return file.filename().string(); }));
}

constexpr std::size_t kDigits = 8;
constexpr std::size_t kChunk = std::size_t{1} << 20;
constexpr std::uint64_t kLongestHeader = 100'000'000;  // limit of the safetensors format

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw std::runtime_error(path + ": " + reason);
}

std::uint32_t add(std::uint32_t crc, std::string_view bytes) {
  return static_cast<std::uint32_t>(crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size()));
}

struct Checksum {
  std::size_t at = 0;  // byte of the file at which the digits begin
  std::string stated;  // digits in the file
  std::string found;   // computed from the bytes
};

Checksum checksum_of(const std::string& path) {
  InputFile file(path);
  std::string length(8, '\0');
  const bool has_length = file.read(length.data(), length.size()) == length.size();
  std::uint64_t header_bytes = 0;
  for (std::size_t i = length.size(); i-- > 0;) header_bytes = header_bytes << 8 | static_cast<std::uint8_t>(length[i]);
  std::string header(std::min(header_bytes, kLongestHeader), '\0');
  if (!has_length || file.read(header.data(), header.size()) != header.size())
    fail(path, "damaged checkpoint: it ends within its header");
  // Quotation marks within a JSON string are escaped, so that only the key itself matches.
  const std::string key = std::string("\"") + kChecksumKey + "\":\"";
  const auto found = header.find(key);
  if (found == std::string::npos || found + key.size() + kDigits > header.size())
    fail(path, std::string("damaged checkpoint: its metadata has no \"") + kChecksumKey + "\", its checksum");
  Checksum sum;
  const std::size_t at = found + key.size();
  sum.at = length.size() + at;
  sum.stated = header.substr(at, kDigits);
  header.replace(at, kDigits, kDigits, '0');
  std::uint32_t crc = add(add(0, length), header);
  std::vector<char> chunk(kChunk);
  while (const std::size_t read_bytes = file.read(chunk.data(), chunk.size()))
    crc = add(crc, {chunk.data(), read_bytes});
  sum.found = fmt::format("{:08x}", crc);
  return sum;
}

bool is_state_of_training(std::string_view name) {
  return name.starts_with("moment1.") || name.starts_with("moment2.") || name.starts_with("window.") ||
         name.starts_with("specialisation.") || name.starts_with("placement.") || name.ends_with(".bias_momentum");
}

}  // namespace

std::string checkpoints_of(const std::string& recording_path) {
  if (recording_path.empty()) return {};
  return fs::path(recording_path).replace_extension(".checkpoints").string();
}

void write_checkpoint(const std::string& folder, std::int64_t step, const std::vector<RunToSave>& runs) {
  const std::string path = step_folder(folder, step);
  try {
    WholeFolder files(path, is_checkpoint_file);
    std::string order;
    for (const RunToSave& run : runs) {
      const std::string name = run.name + ".safetensors";
      run.save(files.file(name));
      order += name + '\n';
    }
    write_whole_file(files.file(kRunsFile), order);
    files.finish();
  } catch (const std::exception& error) {
    throw std::runtime_error("checkpoint " + path + " could not be written: " + error.what());
  }
}

void remove_checkpoint(const std::string& folder, std::int64_t step) {
  remove_own_files(step_folder(folder, step), is_checkpoint_file);
}

std::vector<std::int64_t> checkpoint_steps(const std::string& folder) {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    fs::path name = it->path().filename();
    if (name.extension() == ".replaced") name = name.stem();  // left by a program that was killed (whole_file.h)
    const std::int64_t step = step_of(name.string());
    if (step >= 0 && it->is_directory(error) && !checkpoint_files(folder, step).empty()) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  steps.erase(std::unique(steps.begin(), steps.end()), steps.end());
  return steps;
}

std::vector<std::string> checkpoint_files(const std::string& folder, std::int64_t step) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator it(whole_folder_at(step_folder(folder, step)), error), end; !error && it != end;
       it.increment(error))
    if (it->path().extension() == ".safetensors") files.push_back(it->path().string());
  std::sort(files.begin(), files.end());
  return files;
}

std::int64_t checkpoint_at(const std::vector<std::int64_t>& steps, std::int64_t step) {
  const auto later = std::ranges::upper_bound(steps, step);
  return later == steps.begin() ? steps.front() : *std::prev(later);
}

std::vector<std::string> newest_checkpoint(const std::string& folder, std::int64_t step) {
  const std::vector<std::int64_t> steps = checkpoint_steps(folder);
  if (steps.empty())
    throw std::runtime_error(folder + ": holds no checkpoint: expected a folder with <step>/<run name>.safetensors");
  const std::vector<std::string> files = checkpoint_files(folder, checkpoint_at(steps, step));
  return in_run_order(fs::path(files.front()).parent_path() / kRunsFile, files);
}

void write_checksum(const std::string& path) {
  const Checksum sum = checksum_of(path);
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekp(sum.at);
  file << sum.found << std::flush;
  if (!file) fail(path, std::string("cannot be written: ") + std::strerror(errno));
}

void require_checksum(const std::string& path) {
  const Checksum sum = checksum_of(path);
  if (sum.stated != sum.found)
    fail(path,
         "damaged checkpoint: its checksum is " + sum.found + ", but should be " + sum.stated + "; use an earlier one");
}

int export_weights(const std::string& checkpoint, const std::string& path) {
  const SafetensorsFile file(checkpoint);
  check_checkpoint(checkpoint);
  std::vector<const TensorView*> exported;
  std::vector<TensorSpec> specs;
  for (const TensorView& tensor : file.tensors()) {
    if (is_state_of_training(tensor.name)) continue;
    exported.push_back(&tensor);
    specs.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  std::map<std::string, std::string> metadata = {{"format", "pt"}, {"source", "MoEScope"}};
  for (const char* key : {"config", "steps_taken", "tokens_seen"})
    if (const auto found = file.metadata().find(key); found != file.metadata().end()) metadata.insert(*found);
  SafetensorsStream out(path, specs, metadata);
  std::vector<std::byte> bytes;  // copy of a tensor, because the mapped file may become shorter meanwhile
  for (const TensorView* tensor : exported) {
    bytes.resize(tensor->bytes.size());
    tensor->copy_bytes(bytes.data());
    out.append(bytes);
  }
  out.finish();
  return to_int(exported.size());
}

std::string kept_checkpoint(const std::string& recording, const std::string& run_name,
                            std::optional<std::int64_t> step) {
  const std::string folder = checkpoints_of(recording);
  const std::vector<std::int64_t> steps = checkpoint_steps(folder);
  if (steps.empty())
    throw std::runtime_error(folder +
                             ": no checkpoint is kept beside the recording; if the training kept its checkpoints in "
                             "another folder (--checkpoint), give a file of that folder in place of the recording");
  const std::int64_t chosen_step = step.value_or(steps.back());
  if (std::find(steps.begin(), steps.end(), chosen_step) == steps.end())
    throw std::runtime_error(
        fmt::format("{}: no checkpoint of step {}; there are {}", folder, chosen_step,
                    joined(steps, ", ", [](std::int64_t kept_step) { return std::to_string(kept_step); })));
  for (const std::string& file : checkpoint_files(folder, chosen_step))
    if (run_name.empty() || std::filesystem::path(file).stem() == run_name) return file;
  throw std::runtime_error(fmt::format("{}: no checkpoint of the run {} at step {}", folder, run_name, chosen_step));
}

}  // namespace moescope
