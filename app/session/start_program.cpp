#include "app/session/start_program.h"

#include <QCoreApplication>
#include <QProcess>

namespace moescope {

bool startProgram(const QStringList& arguments, const QList<std::pair<QString, QString>>& variables) {
  QProcess program;
  program.setProgram(QCoreApplication::applicationFilePath());
  program.setArguments(arguments);
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  for (const auto& [name, value] : variables)
    value.isEmpty() ? environment.remove(name) : environment.insert(name, value);
  program.setProcessEnvironment(environment);
  return program.startDetached();
}

}  // namespace moescope
