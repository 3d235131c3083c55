// Asks before a recorded run is reproduced or resumed with other kernels than those that computed it.
#pragma once

#include <QString>
#include <QStringList>
#include <functional>
#include <string>

class QWidget;

namespace moescope {

// Runs `work` at once. If `recorded` (RunInfo::kernels, checkpoint_kernels()) names other kernels, asks before it does.
// If this CPU can run the recorded kernels, the question offers to open `files` in a window that uses them.
void withKernelsAsked(QWidget* parent, const std::string& recorded, const QStringList& files,
                      std::function<void()> work);
// Returns a note if the recorded kernels are unknown or are other kernels; empty if they are the same.
QString kernelsNote(const std::string& recorded);

}  // namespace moescope
