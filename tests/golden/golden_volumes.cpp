// golden_volumes DIR: counts the all-to-all volumes of every routing in DIR and compares with counts in the same file.
//
// tests/golden/volumes/README.md describes the files. All counts must agree exactly. Exits with 0 if they do, 1 if
// something differs, 2 if a file cannot be read or has another form.
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/cluster/ranks/volumes.h"
#include "core/files/tensors/safetensors.h"

using namespace moescope;

namespace {

const TensorView& tensor_of_shape(const SafetensorsFile& file, const char* name,
                                  const std::vector<std::size_t>& shape) {
  const TensorView& tensor = file.at(name);
  if (tensor.shape != shape) throw std::runtime_error(file.path() + ": " + name + " has an unexpected shape");
  return tensor;
}

// Reads the routing [ranks, tokens of a rank, top_k] as [T, K], because ranks are contiguous shards.
std::vector<std::int32_t> read_routing(const SafetensorsFile& file, int n_experts) {
  std::vector<std::int32_t> topk_TK;
  for (const std::int64_t expert : file.at("topk_idx").integers()) {
    if (expert < 0 || expert >= n_experts) {
      throw std::runtime_error(file.path() + ": topk_idx holds " + std::to_string(expert) + ", but there are " +
                               std::to_string(n_experts) + " experts");
    }
    topk_TK.push_back(static_cast<std::int32_t>(expert));
  }
  return topk_TK;
}

// Returns true if the counts are equal.
bool compare(const char* what, const std::vector<std::uint32_t>& counted, const std::vector<std::int64_t>& expected) {
  std::size_t differ = 0;
  std::int64_t largest = 0;
  for (std::size_t i = 0; i < counted.size(); ++i) {
    const std::int64_t error = std::abs(counted[i] - expected.at(i));
    differ += error != 0;
    largest = std::max(largest, error);
  }
  const auto total = std::accumulate(counted.begin(), counted.end(), std::uint64_t{0});
  std::printf("  %-22s %7zu counts, %9llu in all, %zu differ, largest error %lld\n", what, counted.size(),
              static_cast<unsigned long long>(total), differ, static_cast<long long>(largest));
  return differ == 0;
}

// Returns copies per rank from the file's copies per expert.
std::vector<std::int64_t> by_rank(const std::vector<std::int64_t>& tokens_to_expert, int ranks, int n_experts) {
  std::vector<std::int64_t> copies(static_cast<std::size_t>(ranks) * ranks);
  for (int source = 0; source < ranks; ++source) {
    for (int e = 0; e < n_experts; ++e) {
      copies[source * ranks + e / (n_experts / ranks)] += tokens_to_expert[source * n_experts + e];
    }
  }
  return copies;
}

bool check(const std::string& path) {
  const SafetensorsFile file(path);
  const auto& routing = file.at("topk_idx").shape;
  const auto& experts = file.at("tokens_to_expert").shape;
  if (routing.size() != 3 || experts.size() != 2 || routing[0] == 0 || experts[1] % routing[0] != 0 ||
      routing[0] > 65536 || experts[1] > 65536 || routing[2] == 0) {
    throw std::runtime_error(path + ": expected topk_idx [R, T, K] and tokens_to_expert [R, E], E a multiple of R");
  }
  const std::size_t R = routing[0];
  const int ranks = static_cast<int>(R);
  const int n_experts = static_cast<int>(experts[1]);
  const auto per_node = file.metadata().find("ranks_per_node");
  const int ranks_per_node = per_node == file.metadata().end() ? 8 : std::stoi(per_node->second);
  if (ranks_per_node < 1) throw std::runtime_error(path + ": ranks_per_node is " + per_node->second);
  const std::size_t nodes = (R + ranks_per_node - 1) / ranks_per_node;

  const std::vector<std::int32_t> topk_TK = read_routing(file, n_experts);
  const int top_k = static_cast<int>(routing[2]);
  const VolumeFrame volume = count_volumes(topk_TK, top_k, n_experts, ranks, ranks_per_node);
  std::printf("%s: %d ranks in nodes of %d, %zu tokens each, top %zu of %d\n", path.c_str(), ranks, ranks_per_node,
              routing[1], routing[2], n_experts);
  const auto to_expert = tensor_of_shape(file, "tokens_to_expert", {R, experts[1]}).integers();
  bool all_agree = compare("copies by expert", count_by_expert(topk_TK, top_k, n_experts, ranks), to_expert);
  all_agree &= compare("copies by rank", volume.copies_RR, by_rank(to_expert, ranks, n_experts));
  all_agree &=
      compare("distinct by rank", volume.distinct_RR, tensor_of_shape(file, "tokens_to_rank", {R, R}).integers());
  all_agree &=
      compare("distinct by node", volume.nodes_RN, tensor_of_shape(file, "tokens_to_node", {R, nodes}).integers());
  return all_agree;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: golden_volumes DIR\n");
    return 2;
  }
  try {
    bool all_agree = true;
    for (const auto& entry : std::filesystem::directory_iterator(argv[1]))
      if (entry.path().extension() == ".safetensors") all_agree &= check(entry.path().string());
    std::printf("%s\n", all_agree ? "all counts agree" : "counts differ");
    return all_agree ? 0 : 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "golden_volumes: %s\n", error.what());
    return 2;
  }
}
