#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>
#include <vector>

#include "core/files/folder_walk.h"
#include "core/files/input_file.h"
#include "core/files/sqlite.h"
#include "core/files/tensors/open_tensors.h"
#include "core/files/text/text_escape.h"

namespace moescope {
namespace {

using namespace std::string_view_literals;
namespace fs = std::filesystem;

constexpr std::size_t kFormBytes = 4096;
constexpr std::size_t kMaxNames = 100'000;  // names of a folder that are looked at
constexpr std::string_view kSqlite = "SQLite format 3";

constexpr const char* kGgml = "is a GGML model, which is not read: open the .safetensors from which it was made";
constexpr const char* kSwanLab =
    "is a run of SwanLab, which is not read: export its charts, or its metrics by swanlab.Api, as CSV";
constexpr const char* kNeptune = "is a run of Neptune, which is not read: export its metrics as CSV";
constexpr const char* kDistcp =
    "is a distributed checkpoint of PyTorch (DCP), which is not read: python -m "
    "torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER model.pt writes a file that is";
constexpr const char* kOrbax = "is a checkpoint of Orbax (JAX), which is not read: convert it to .safetensors";

// A form that begins with `bytes` at position `at`. More specific beginnings come first.
struct FormOfBytes {
  std::size_t at;
  std::string_view bytes;
  const char* text;
};
constexpr FormOfBytes kFormsOfBytes[] = {
    {0, "GGUF"sv,
     "is a GGUF model of llama.cpp, which is not read: open the folder of .safetensors from which it was made"},
    {0, "lmgg"sv, kGgml},
    {0, "fmgg"sv, kGgml},
    {0, "tjgg"sv, kGgml},
    {0, "PAR1"sv,
     "is a Parquet file, which is not read: in Python, pandas.read_parquet(FILE).to_csv(\"table.csv\", index=False) "
     "writes a table that is"},
    {0, "PARE"sv, "is an encrypted Parquet file, which is not read"},
    {0, "ARROW1"sv,
     "is an Arrow file, which is not read: in Python, pandas.read_feather(FILE).to_csv(\"table.csv\", index=False) "
     "writes a table that is"},
    {0, "FEA1"sv,
     "is a Feather file, which is not read: in Python, pandas.read_feather(FILE).to_csv(\"table.csv\", index=False) "
     "writes a table that is"},
    {0, "ORC"sv, "is an ORC file, which is not read: write its table as CSV"},
    {0, "Obj\x01"sv, "is an Avro file, which is not read: write its records as JSON lines"},
    {0, "\x89HDF\r\n\x1a\n"sv,
     "is an HDF5 file, which is not read: write its arrays with numpy.savez or safetensors.numpy.save_file"},
    {0, "\x89PNG"sv, "is a picture (PNG), which holds no numbers of a run"},
    {0, "\xff\xd8\xff"sv, "is a picture (JPEG), which holds no numbers of a run"},
    {0, "GIF8"sv, "is a picture (GIF), which holds no numbers of a run"},
    {8, "WEBP"sv, "is a picture (WebP), which holds no numbers of a run"},
    {0, "II*\0"sv, "is a picture (TIFF), which holds no numbers of a run"},
    {0, "MATLAB 5.0"sv, "is a file of MATLAB, which is not read: scipy.io.loadmat reads it, numpy.savez writes .npz"},
    {0, "%PDF"sv, "is a PDF document, which holds no numbers of a run"},
    {0,
     "\x7f"
     "ELF"sv,
     "is a program or library, which holds no run"},
    {0, "7z\xbc\xaf\x27\x1c"sv, "is a 7z archive: unpack it first"},
    {0, "Rar!\x1a\x07"sv, "is a RAR archive: unpack it first"},
    {257, "ustar"sv, "is a tar archive: unpack it first"},
    {4, "TFL3"sv, "is a TensorFlow Lite model, which is not read"},
};

// A form that is known by the name of the file. Patterns are those of fnmatch().
struct FormOfName {
  const char* pattern;
  const char* text;
};
constexpr FormOfName kFormsOfNames[] = {
    {"*.distcp", kDistcp},
    {"*.swanlab", kSwanLab},
    {"*.pkl", "is a pickle of Python, which is not read: write its steps as JSON lines, json.dumps(step) for each"},
    {"*.ipynb",
     "is a Jupyter notebook: jq -rj '.cells[].outputs[]?.text[]?' FILE > printed.log writes what its cells printed, "
     "which is read"},
    {"*.onnx", "is an ONNX model, which is not read: open the .safetensors from which it was made"},
    {"*.msgpack", "is a model of Flax, which is not read: save it as .safetensors"},
    {"*.engine", "is an engine of TensorRT, which is not read: open the .safetensors from which it was built"},
    {"*.nsys-rep",
     "is a report of Nsight Systems, which is not read: nsys stats --report nvtx_sum --format csv FILE writes tables"},
    {"*.data-[0-9]*-of-[0-9]*", "is a part of a TensorFlow checkpoint, which is not read: save it as .safetensors"},
};

// A form of a folder, which holds files or folders of all these names. Patterns are those of fnmatch().
struct FormOfFolder {
  std::string_view first, second;  // second: "" if the first name suffices
  const char* text;
};
constexpr FormOfFolder kFormsOfFolders[] = {
    {"adapter_[cm]o*", "",  // adapter_config.json, adapter_model.safetensors
     "is an adapter (PEFT), not a model; merge it into its base model first: in Python, "
     "AutoPeftModelForCausalLM.from_pretrained(FOLDER).merge_and_unload().save_pretrained(\"merged\")"},
    {"adapters.safetensors", "",
     "is an adapter (MLX), not a model; merge it into its base model first: mlx_lm.fuse --model MODEL --adapter-path "
     "FOLDER"},
    {"zero_to_fp32.py", "",
     "is a checkpoint of DeepSpeed, which is not run: python zero_to_fp32.py FOLDER OUT --safe_serialization writes "
     ".safetensors; config.json of the model belongs beside them"},
    {"*.distcp", "", kDistcp},
    {"_CHECKPOINT_METADATA", "", kOrbax},
    {"manifest.ocdbt", "", kOrbax},
    {"metadata.json", ".zmetadata", "is an array of Zarr, which is not read: write it with numpy.save"},
    {"saved_model.pb", "", "is a model of TensorFlow, which is not read: save its weights as .safetensors"},
    {"checkpoint", "*.index", "is a checkpoint of TensorFlow, which is not read: save it as .safetensors"},
    {"dataset_info.json", "*.arrow",
     "is a data set of Hugging Face: datasets.load_from_disk(FOLDER).to_csv(\"table.csv\") writes a table"},
    {"latest_checkpointed_iteration.txt", "",
     "is a folder of checkpoints of Megatron-LM, which are not run: Megatron-Bridge or tools/checkpoint/convert.py "
     "writes one as .safetensors"},
    {"pytorch_model*.bin*", "",
     "holds a model as pytorch_model.bin, which is not run: in Python, "
     "AutoModelForCausalLM.from_pretrained(FOLDER).save_pretrained(\"model\") writes it as .safetensors"},
    {"*.gguf", "",
     "holds GGUF models of llama.cpp, which are not read: open the .safetensors from which they were made"},
    {"*.swanlab", "", kSwanLab},
    {"task.json", "metrics.jsonl", "is an offline task of ClearML, which is not read: export its scalars as CSV"},
    {"run_metadata.sqlite*", "",
     "is a repository of Aim, which is not read: in Python, aim.Repo(FOLDER).query_metrics(\"True\") gives the "
     "metrics, "
     "whose dataframe() is written as CSV by to_csv()"},
    {".neptune", "", kNeptune},
    {"refs", "snapshots",
     "is a folder of Hugging Face's cache without a log; if its model does not open, its download is incomplete: hf "
     "download OWNER/NAME completes it"},
};

// A database that is known by its tables.
struct FormOfTables {
  std::string_view first, second;
  const char* text;
};
constexpr FormOfTables kFormsOfTables[] = {
    {"run", "experiment",
     "is a database of Aim, which holds no metrics; they are in the folder .aim: in Python, "
     "aim.Repo(FOLDER).query_metrics(\"True\") gives them, and to_csv() of their dataframe() writes them"},
    {"studies", "trials", "is a study of Optuna, which holds no steps of a training"},
    {"run_operations", "", kNeptune},
    {"NVTX_EVENTS", "", "is a report of Nsight Systems, which is not read: nsys stats writes its tables as CSV"},
};

bool matches(const std::string& name, std::string_view pattern) {
  return ::fnmatch(std::string(pattern).c_str(), name.c_str(), 0) == 0;
}

// Writes the paths in place of FOLDER and FILE, so that a command can be copied.
std::string with_paths(std::string text, const fs::path& folder, const fs::path& file) {
  for (const auto& [word, path] : {std::pair("FOLDER"sv, folder.empty() ? "." : folder), std::pair("FILE"sv, file)})
    if (const std::size_t at = text.find(word); at != std::string::npos)
      text.replace(at, word.size(), '"' + printable(path.string()) + '"');
  return text;
}

// True for an importance matrix in llama.cpp's format before GGUF: a count of entries, then the length of the first
// name, and the name.
bool begins_like_old_imatrix(std::string_view bytes) {
  constexpr std::size_t kName = 8;
  if (bytes.size() < kName + 4) return false;
  const auto small_number = [&](std::size_t at) { return bytes[at + 2] == 0 && bytes[at + 3] == 0; };
  const std::string_view name = bytes.substr(kName);
  return small_number(0) && small_number(4) && (name.starts_with("blk.") || name.starts_with("output"));
}

std::string form_of_database(const std::string& path) {
  std::set<std::string> tables;
  Connection database(path, SQLITE_OPEN_READONLY);
  Statement names(database, "SELECT name FROM sqlite_master WHERE type = 'table' LIMIT 1000");
  while (names.next()) tables.insert(names.get_text("the name of a table"));
  if (tables.contains("metrics")) return {};  // MLflow, Trackio
  for (const FormOfTables& form : kFormsOfTables)
    if (tables.contains(std::string(form.first)) && (form.second.empty() || tables.contains(std::string(form.second))))
      return form.text;
  std::string list;
  for (const std::string& table : tables)
    if (list.size() < 200) list += (list.empty() ? "" : ", ") + table;
  return "is an SQLite database of another program, which is not read (its tables: " + (list.empty() ? "none" : list) +
         ")";
}

std::string form_of_zip(std::string_view bytes) {
  constexpr std::size_t kName = 30;  // position of the name of the first entry
  const std::string_view name = bytes.size() > kName ? bytes.substr(kName, 60) : std::string_view();
  if (name.starts_with("[Content_Types].xml") || name.starts_with("mimetypeapplication/vnd.oasis"))
    return "is a spreadsheet or document, which is not read: save its table as CSV";
  if (name.starts_with("experiment.json") || name.starts_with("messages.json"))
    return "is an offline experiment of Comet, which is not read: comet upload FILE sends it to Comet, which exports "
           "metrics as CSV";
  return {};  // perhaps of torch.save or numpy.savez
}

std::string form_of_file(const std::string& path) {
  InputFile file(path);
  std::string bytes(kFormBytes, '\0');
  bytes.resize(file.read(bytes.data(), bytes.size()));
  if (bytes.starts_with(kSqlite)) return form_of_database(path);
  for (const FormOfBytes& form : kFormsOfBytes)
    if (bytes.size() > form.at && std::string_view(bytes).substr(form.at).starts_with(form.bytes)) return form.text;
  const std::string name = fs::path(path).filename().string();
  for (const FormOfName& form : kFormsOfNames)
    if (matches(name, form.pattern)) return form.text;
  if (bytes.starts_with("PK\x03\x04")) return form_of_zip(bytes);
  if (begins_like_old_imatrix(bytes))
    return "is an importance matrix of llama.cpp in its old format, which has no counts of experts: llama-imatrix "
           "--output-format gguf writes them";
  return {};
}

std::vector<std::string> names_in(const fs::path& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (auto entry = fs::directory_iterator(folder, error);
       !error && entry != fs::directory_iterator() && names.size() < kMaxNames; entry.increment(error))
    names.push_back(entry->path().filename().string());
  std::ranges::sort(names);
  return names;
}

std::string form_of_folder(const fs::path& folder, bool with_folders_in_it) {
  const std::vector<std::string> names = names_in(folder);
  const auto holds = [&](std::string_view pattern) {
    return std::ranges::any_of(names, [&](const std::string& name) { return matches(name, pattern); });
  };
  for (const FormOfFolder& form : kFormsOfFolders)
    if (holds(form.first) && (form.second.empty() || holds(form.second))) return with_paths(form.text, folder, {});
  if (fs::absolute(folder).lexically_normal().filename() == ".neptune") return kNeptune;
  for (const std::string& name : names) {
    std::error_code error;
    if (!with_folders_in_it || !fs::is_directory(folder / name, error) || leads_out_of(folder, folder / name)) continue;
    if (const std::string form = form_of_folder(folder / name, false); !form.empty())
      return "holds the folder " + printable(name) + ", which " + form;
  }
  return {};
}

}  // namespace

bool is_binary(std::string_view bytes) {
  return std::ranges::any_of(bytes, [](char c) {
    const auto code = static_cast<unsigned char>(c);
    return code < 0x20 && "\a\b\t\n\v\f\r\x1b"sv.find(c) == std::string_view::npos;
  });
}

std::string unread_form(const std::string& path) {
  std::error_code error;
  if (fs::is_directory(path, error)) return form_of_folder(path, true);
  return with_paths(form_of_file(path), fs::path(path).parent_path(), path);
}

}  // namespace moescope
