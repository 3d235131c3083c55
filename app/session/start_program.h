// Another window of this program, as a process of its own.
#pragma once

#include <QList>
#include <QString>
#include <QStringList>
#include <utility>

namespace moescope {

// With these variables in its environment; one that is set to nothing is left out of it. False: it did not start.
bool startProgram(const QStringList& arguments, const QList<std::pair<QString, QString>>& variables);

}  // namespace moescope
