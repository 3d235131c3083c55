#include "core/recording/limits.h"

#include "core/io/sqlite.h"

namespace moescope {

void check_products(const RunInfo& info, const std::string& where) {
  narrow(static_cast<std::int64_t>(info.moe_layers.size()) * info.n_experts, 0, kMaxLoadColumns,
         where + "number of experts of all layers");
  // The slots by domain and expert are one value of 4 bytes each; half of the limit leaves room for the rest of a row.
  narrow(static_cast<std::int64_t>(info.domains.size()) * info.n_experts, 0, kLongestValue / 8,
         where + "number of domains times experts");
}

}  // namespace moescope
