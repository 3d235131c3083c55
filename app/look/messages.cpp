#include "app/look/messages.h"

#include <QDialog>
#include <QFileDialog>
#include <QMessageBox>
#include <QStatusBar>
#include <exception>

#include "core/files/output_guard.h"
#include "widgets/look/tokens.h"

namespace moescope {
namespace {

constexpr int kBetweenReadoutsMs = 80;

// Returns the parts of a readout, which three blanks separate, that fit into the width, but at least the first.
QString wholeParts(QString readout, const QFontMetrics& metrics, int width) {
  const QString between(3, ' ');
  while (readout.contains(between) && metrics.horizontalAdvance(readout) > width)
    readout.truncate(readout.lastIndexOf(between));
  return readout;
}

}  // namespace

QString linesOf(const std::vector<ConfigProblem>& problems) {
  QStringList lines;
  for (const ConfigProblem& problem : problems) lines << QString::fromStdString(problem.text());
  return lines.join('\n');
}

Messages::Messages(QStatusBar* line) : QObject(line), line_(line), readouts_(kBetweenReadoutsMs) {
  connect(&readouts_, &Throttle::passed, this, [this] {
    readout_ = wholeParts(next_readout_, line_->fontMetrics(), line_->width() - kSpace16);
    line_->showMessage(readout_);
  });
}

QWidget* Messages::window() const {
  return line_->window();
}

void Messages::say(const QString& text, int for_ms) {
  line_->showMessage(text, for_ms);
}

void Messages::warn(const QString& text) {
  auto* box = new QMessageBox(QMessageBox::Warning, "MoEScope", text, QMessageBox::Ok, frontOf(window()));
  box->setAttribute(Qt::WA_DeleteOnClose);
  box->setObjectName("warning");
  box->setTextInteractionFlags(Qt::TextSelectableByMouse);
  box->open();
  emit warned(text);
}

void Messages::warnOfErrors(const std::function<void()>& action) {
  try {
    action();
  } catch (const std::exception& error) {
    warn(QString::fromUtf8(error.what()));
  }
}

void Messages::saveAs(const QString& title, const QString& suggested, const QString& filter,
                      const std::function<void(const QString& path)>& save) {
  const QString path = QFileDialog::getSaveFileName(window(), title, suggested, filter);
  if (path.isEmpty()) return;
  warnOfErrors([&] {
    const bool overwrite = true;  // the dialog has asked
    guard_outputs(inputs_ ? inputs_() : std::vector<std::string>(), {{"", path.toStdString()}}, overwrite);
    save(path);
  });
}

QWidget* frontOf(QWidget* window) {
  QWidget* front = window;
  for (QDialog* dialog : window->findChildren<QDialog*>(Qt::FindDirectChildrenOnly))
    if (dialog->isVisible() && !dialog->testAttribute(Qt::WA_DeleteOnClose)) front = dialog;
  return front;
}

// Clears only a readout; other messages stay.
void Messages::showReadout(const QString& text) {
  next_readout_ = text;
  if (!text.isEmpty()) return readouts_.change();
  readouts_.forget();
  if (line_->currentMessage() == readout_) line_->clearMessage();
  readout_.clear();
}

}  // namespace moescope
