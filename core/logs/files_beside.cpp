#include "core/logs/files_beside.h"

#include <filesystem>

#include "core/logs/events/import_events.h"
#include "core/logs/events/import_wandb.h"
#include "core/logs/file_kind.h"

namespace moescope {

std::vector<std::string> files_beside(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  const FileKind kind = file_kind(path);
  if (kind == FileKind::wandb_run) return wandb_files(path);
  if (kind == FileKind::event_file) return {(std::filesystem::path(path).parent_path() / kTagsBeside).string()};
  return {};
}

}  // namespace moescope
