// The readers of other programs' logs, one for each form; file_kind.h chooses among them. docs/logs.md describes the
// forms, and the file of a reader their sources.
//
// Every import_... takes a path and the options of an import, and throws std::runtime_error with the path if it cannot
// be read, or RefusedLog if it has no name that is known. Without runs it was cancelled. Functions that recognise a
// form judge a name, or the first bytes of a file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/logs/import.h"

namespace moescope {

// TensorBoard's event file, or a folder: the folder and each folder below it is a run if it has event files.
Imported import_events(const std::string& path, const ImportOptions& options = {});
bool is_event_file(const std::filesystem::path& path);

// W&B's file of a run, its folder, or one of the three folders above.
Imported import_wandb(const std::string& path, const ImportOptions& options = {});
std::vector<std::string> wandb_files(const std::string& file);  // all parts of its run, oldest first
bool begins_like_wandb(std::string_view bytes);
bool is_wandb_folder(const std::string& folder);   // true for the folder of a run, or of runs
bool holds_wandb_runs(const std::string& folder);  // also true if the folders of runs are two levels further down

// MLflow's folder of a run, or a database, also Trackio's. Of a database, reads the runs that are not deleted and have
// a key that the mapping knows, oldest first; options.only has names or ids of runs.
Imported import_mlflow(const std::string& path, const ImportOptions& options = {});
inline constexpr int kDeepestMlflowKey = 32;  // slashes in a key that is read
bool is_mlflow_run(const std::filesystem::path& folder);

// Statistics of TransformerEngine's debug features: a file, or a folder with such files or with
// nvdlfw_inspect_statistics_logs. Throws std::runtime_error if it has no statistics of quantization (then with the
// names of those that it has).
Imported import_te_statistics(const std::string& path, const ImportOptions& options = {});
bool is_te_statistics_name(std::string_view file_name);  // nvdlfw_inspect_globalrank-0.log
bool is_te_statistics_folder(const std::filesystem::path& folder);

// trainer_state.json of Hugging Face's Trainer, the entries of its log_history as JSON lines (import_jsonl.h), and
// other JSON that has the steps in a list, or all values of a name together.
Imported import_trainer_state(const std::string& path, const ImportOptions& options = {});
inline constexpr std::uint64_t kMaxStateBytes = std::uint64_t{32} << 20;
enum class JsonHistory { none, steps, columns };   // a list of steps; the values of all steps together
JsonHistory json_history(std::string_view bytes);  // of a whole file
bool names_a_step(std::string_view json);          // it has a key that is usual for a step

// CSV tables in three forms (table_form.h), with any usual delimiter. Reads the file once; it may grow meanwhile.
// Throws std::runtime_error if it takes more than kMaxTableBytes, or has rows in an order that does not tell which of
// them count (table_loads.h).
Imported import_table(const std::string& path, const ImportOptions& options = {});
// Returns the name of the values in a download of TensorBoard, which is part of the file's name: "train_loss" for
// "run-a-tag-train_loss (1).csv".
std::string tag_of_file(const std::string& path);
// Returns the first line of a table if it is a header; else an empty text.
std::string table_header(const std::string& path);

// Dumps of expert statistics, which are no training logs. Throws AmbiguousRouting if a number that options.routed may
// state is needed.
Imported import_expert_counts(const std::string& path, const ImportOptions& options = {});
// Recognised by the names in it. `bytes`: the first bytes of a file; empty for a folder. A file that cannot be read is
// none.
bool is_expert_counts(const std::string& path, std::string_view bytes);

// The experts of every token, as inference engines and trainers of reinforcement learning write them. Throws
// AmbiguousRouting if several shapes are possible and options.routed does not decide.
Imported import_routed_experts(const std::string& path, const ImportOptions& options = {});
// Recognises a file by its first bytes, at most 4096: JSON with the key "routed_experts", a NumPy array of integers
// with three or four dimensions, or tensors that have integers under a name of routed experts. If the name of the file
// is such a name, any file of tensors, or a NumPy array of integers with one to four dimensions; any JSON if it
// contains "routed_experts".
bool is_routed_experts(const std::string& path, std::string_view bytes);

// Router traces of Megatron-LM: a file, or a folder of such files. Reads loads and co-activation of experts (for every
// step if the tables are small, else once for all steps). If run A also has the experts of every token
// (options.routes), also computes flips and overlap.
Imported import_trace(const std::string& path, const ImportOptions& options = {});
bool is_trace_name(std::string_view file_name);  // router_trace_rank0.jsonl
bool begins_like_trace(std::string_view bytes);

// A folder of logs that are parts of one run: a file for each rank, layer or step, whose names differ in numbers only.
// Two files of the same rank, layer and step are of several runs; then none is a part. Loads of the same layer in files
// of ranks are added, unless all ranks have the same ones. Throws AmbiguousRouting if the ranks have other numbers of
// tokens: then their lists may be those of different experts, and options.routed.experts states which.
Imported import_part_files(const std::string& folder, const ImportOptions& options);
// Returns the number behind the word "rank", "layer" or "step" in the name of a file, "rank_3.jsonl"; -1: there is
// none.
int number_in_file_name(std::string_view name, const char* word);
// Returns the files of the folder, by number; empty if it holds no such files, or further files of their form.
std::vector<std::filesystem::path> part_files(const std::filesystem::path& folder);
// Returns the remark for one of such files, which is read alone; empty if there are no others.
std::string parts_beside(const std::filesystem::path& file);

}  // namespace moescope
