// The fields of [data] and [parallel].
#include "core/config/field_maker.h"

namespace moescope {

template <>
constexpr std::array<const char*, 2> kChoices<Generator>{"passages", "facts"};

std::vector<ConfigField> data_fields() {
  FieldTable t;
  t.group("Data");
  t.add(field<&DataConfig::path>("path", "Text file or folder",
                                 "Text that the model reads. Empty: built-in text of the kind that data.generator "
                                 "names. A file: its text. A folder: every file or sub-folder in it is one domain."));
  t.add(field<&DataConfig::tokenizer>("tokenizer", "Tokenizer",
                                      "A tokenizer.json of Hugging Face: the model reads and writes the tokens of this "
                                      "tokenizer; model.vocab must be their number. Empty: tokens are bytes."));
  t.add(field<&DataConfig::generator>(
      "generator", "Built-in text",
      "Text that the program generates where no file is given. passages: ten domains, from prose, code and arithmetic "
      "to Morse; one expert learns them about as well as eight. facts: ten languages, Q to Z, with the same 59 "
      "symbols. The letter of the language and a symbol alternate, and each symbol has another successor in every "
      "language: 590 facts to memorize, which need many experts. One symbol in a hundred is random, so that no model "
      "reaches less than 0.048 nats/byte."));
  t.add(field<&DataConfig::batch>("batch", "Sequences per step", "sequences", {1, 4096},
                                  "Number of sequences in a batch. DeepSeek-V3: 15360. More tokens per step mean less "
                                  "noise in gradients and expert load, and slower steps."));
  t.add(field<&DataConfig::seq>(
      "seq", "Sequence length", "tokens", {2, 16384},
      "Tokens in one sequence. DeepSeek-V3: 4096. Time and memory of attention grow with its square."));
  t.add(field<&DataConfig::microbatches>(
      "microbatches", "Microbatches", "microbatches", {1, 4096},
      "Number of equal parts of the batch, as in gradient accumulation. Each microbatch has its own auxiliary loss (in "
      "mode batch) and its own capacities; the auxiliary loss of the batch is their mean, and expert_bias follows the "
      "load of the whole batch. Gradients are summed in FP32: without an auxiliary loss and without capacities the "
      "number of microbatches has no effect. The number must divide the sequences per step."));
  t.add(field<&DataConfig::documents>(
      "documents", "Documents per sequence", "documents", {1, 64},
      "Packed sequences: each consists of this many documents of uneven length, which are usually of different "
      "domains. The texts of the batch are cut at random places, the same in all sequences, and their pieces are "
      "exchanged, so that a packed batch has the same bytes. Attention is not reset between documents; the last byte "
      "of a document predicts its own next byte. At most the sequences per step. 1: not packed."));
  t.add(field<&DataConfig::padding>(
      "padding", "Padding", "share", {0, 0.5},
      "Mean share of padding tokens (byte 0) at the end of sequences; the share varies between sequences from 0 to "
      "twice the mean. Padding is routed and computed like text, but has no loss. router.count_padding sets whether it "
      "counts in the load. 0: no padding."));
  t.add(live(field<&DataConfig::mixture>(
      "mixture", "Domain mixture",
      "Weights of the domains in the batches, as DOMAIN=WEIGHT: code=1 reads code alone; prose=0.5, JSON=2, *=1 sets "
      "two weights and that of all others (*). Domains that are not named have weight 0. A change during training is a "
      "domain shift and shows how slowly the biases follow. Runs side by side read the same batches, so that the "
      "change applies to all. Empty: built-in domains are equally frequent, and all places of your own text are "
      "equally likely.")));
  t.add(field<&DataConfig::held_out>(
      "held_out", "Held-out share", "share", {0, 0.5},
      "Share at the end of each of your own texts that is never trained on; the validation loss is measured on it. 0: "
      "no validation loss. The built-in generators always generate separate text for validation; that of facts "
      "contains the same facts."));
  return t.fields;
}

std::vector<ConfigField> parallel_fields() {
  FieldTable t;
  t.group("All-to-all");
  t.add(field<&ParallelConfig::ranks>("ranks", "Virtual ranks", "ranks", {1, 256},
                                      "Virtual GPUs over which experts and tokens are spread; the all-to-all between "
                                      "them is counted from the real routing. DeepSeek-V3 trained with 64-way expert "
                                      "parallelism. Must divide the experts. No effect on the training."));
  t.add(field<&ParallelConfig::ranks_per_node>(
      "ranks_per_node", "Ranks per node", "ranks", {1, 256},
      "Number of ranks that share a fast link (NVLink): 8 in most machines. Copies to other nodes are sent over the "
      "slower network, where DeepEP sends one copy per node in place of one per chosen expert."));
  t.add(live(field<&ParallelConfig::placement>(
      "placement", "Expert placement",
      "Which virtual rank holds which expert, for counting. contiguous: in order. random. balanced: by the rule of "
      "EPLB, DeepSeek's balancer for inference: the experts with the highest load get replicas in one more slot per "
      "rank, then experts are packed by the load of the same step, which a real training knows too late. "
      "balanced:STEPS: by the load of the previous STEPS steps, planned every STEPS steps, as a real training can do "
      "it. packed:STEPS: the same without replicas. By hand: the rank of each expert of a layer, "
      "LAYER:RANK,RANK,...;LAYER:..., as the panel Expert placement "
      "writes it. No effect on the training.")));
  return t.fields;
}

}  // namespace moescope
