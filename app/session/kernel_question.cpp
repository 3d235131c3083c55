#include "app/session/kernel_question.h"

#include <QCoreApplication>
#include <QMessageBox>
#include <QProcess>
#include <QPushButton>

#include "core/numerics/matrix_units.h"
#include "core/numerics/processor.h"

namespace moescope {
namespace {

// Starts another window of this program as a separate process. Returns false if it did not start.
bool openWindowWith(const KernelCheck& recorded, const QStringList& files) {
  QProcessEnvironment environment = QProcessEnvironment::systemEnvironment();
  if (!recorded.core.empty()) environment.insert("OPENBLAS_CORETYPE", QString::fromStdString(recorded.core));
  if (!recorded.units.empty()) environment.insert(kMatrixUnitsVariable, QString::fromStdString(recorded.units));
  QProcess program;
  program.setProgram(QCoreApplication::applicationFilePath());
  program.setArguments(files);
  program.setProcessEnvironment(environment);
  return program.startDetached();
}

}  // namespace

void withKernelsAsked(QWidget* parent, const std::string& recorded, const QStringList& files,
                      std::function<void()> work) {
  const KernelCheck check = check_kernels(recorded);
  if (check.outcome != KernelCheck::Outcome::other) return work();
  auto* box = new QMessageBox(QMessageBox::Question, "Other kernels", QString::fromStdString(check.text),
                              QMessageBox::Cancel, parent);
  box->setObjectName("other_kernels");
  box->setAttribute(Qt::WA_DeleteOnClose);
  if (check.helps()) {
    auto* open_button = box->addButton("&Open it in a window with the recorded kernels", QMessageBox::YesRole);
    open_button->setObjectName("with_recorded_kernels");
    QObject::connect(open_button, &QPushButton::clicked, parent, [parent, check, files] {
      if (!openWindowWith(check, files))
        QMessageBox::warning(parent, "MoEScope", QCoreApplication::applicationFilePath() + " cannot be started");
    });
  }
  auto* go_on_button = box->addButton("Go on &here", QMessageBox::AcceptRole);
  go_on_button->setObjectName("with_these_kernels");
  QObject::connect(go_on_button, &QPushButton::clicked, parent, [work = std::move(work)] { work(); });
  box->open();
}

QString kernelsNote(const std::string& recorded) {
  const KernelCheck check = check_kernels(recorded);
  return check.outcome == KernelCheck::Outcome::equal ? QString() : QString::fromStdString(check.text);
}

}  // namespace moescope
