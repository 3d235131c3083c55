// Batches of bytes with domain labels: text of an embedded generator, or text files.
//
// Legend: B sequences, S tokens of each. Batches are a pure function of (data config, seed, step, mixture), so runs in
// lock-step see the same ones and a resumed run continues with the one it would have seen.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/config/mixture.h"
#include "core/config/run_config.h"

namespace moescope {

struct Batch {
  int sequences = 0, length = 0;
  std::vector<std::int32_t> input;                         // [B*S]
  std::vector<std::int32_t> target;                        // [B*S], the next byte
  std::vector<std::int32_t> domain;                        // [B], index into Dataset::domains()
  const std::vector<std::string>* domain_names = nullptr;  // owned by the dataset; nullptr: they have no names
};

inline constexpr int kHeldOutBatches = 4;

using GoesOn = std::function<bool()>;  // false: whoever waits for the data does not want it any more; empty: true

class Dataset {
 public:
  explicit Dataset(std::int64_t seed) : seed_(seed) {}
  virtual ~Dataset() = default;
  virtual const std::vector<std::string>& domains() const = 0;
  virtual Batch batch(std::int64_t step, const Mixture& mixture) const = 0;
  Batch batch(std::int64_t step) const { return batch(step, mixture_); }  // with the mixture given to open_dataset()
  // kHeldOutBatches batches that no batch() has anything of, domains in turn, the same for any seed; those of generated
  // facts are drawn apart, but there are so few facts that batches repeat them. Empty: nothing of the text is held out.
  virtual std::vector<Batch> held_out() const = 0;
  virtual std::string summary() const { return {}; }  // what was found and what was skipped, as text for the user

  // For data.mixture = `text`. Throws std::invalid_argument as mixture_weights() does.
  Mixture mixture(const std::string& text) const;

 private:
  friend std::unique_ptr<Dataset> open_dataset(const DataConfig& config, std::int64_t seed, const GoesOn& goes_on);
  std::int64_t seed_;
  Mixture mixture_;
};

Batch empty_batch(int sequences, int length);  // all zero
// Row `row` from the first S + 1 bytes of `text`.
void fill_sequence(Batch& batch, int row, int domain, std::string_view text);

// Throws std::runtime_error with the path, what was found and what is needed (unreadable, too short, no text), or with
// what is wrong with the mixture, or because it was not to go on.
std::unique_ptr<Dataset> open_dataset(const DataConfig& config, std::int64_t seed, const GoesOn& goes_on = {});

}  // namespace moescope
