#include "app/cli/reading_options.h"

namespace moescope {

void add_routed_options(Command& command, RoutedShape& routed) {
  command.option("--layers", routed.layers, "Files of routed experts: layers of a token (default: the file's)")
      .range(1, static_cast<int>(kMaxImportedLayers));
  command
      .option("--top-k", routed.top_k, "Files of routed experts: experts of a token in a layer (default: the file's)")
      .range(1, 1024);
  command
      .option(
          "--experts", routed.experts,
          "Files of routed experts: experts of a layer; higher numbers are slots without one (default: the highest)")
      .range(1, static_cast<int>(kMaxImportedExperts));
}

void add_run_option(Command& command, std::string& run) {
  command.option("--run", run,
                 "The run to read, of a file that holds several (mlflow.db, folders of TensorBoard and W&B): its name; "
                 "of MLflow also its id");
}

}  // namespace moescope
