// Asks, before a recorded run is reproduced or resumed, when its kernels are not those of this program.
#pragma once

#include <QString>
#include <QStringList>
#include <functional>
#include <string>

class QWidget;

namespace moescope {

// Runs `work`, at once or, where `recorded` (RunInfo::kernels, checkpoint_kernels()) names other kernels, after a
// question. Where this CPU can run those, the question offers a window of its own that does, with `files` open.
void withKernelsAsked(QWidget* parent, const std::string& recorded, const QStringList& files,
                      std::function<void()> work);
// The note where nothing is asked: that the kernels are not recorded; empty: they are the same.
QString kernelsNote(const std::string& recorded);

}  // namespace moescope
