// Asks which texts to run through the model of a checkpoint, and says beforehand how large it is and how long it takes;
// or begins the set-up of a training from it.
#pragma once

#include <QDialog>
#include <QStringList>
#include <thread>

#include "app/session/checkpoint_job.h"

class QComboBox;
class QLabel;
class QListWidget;
class QPlainTextEdit;
class QPushButton;

namespace moescope {

class CheckpointDialog : public QDialog {
  Q_OBJECT

 public:
  // `has_log`: a log of the training lies beside the weights, and can be opened instead.
  CheckpointDialog(const QString& folder, bool has_log, QWidget* parent);
  ~CheckpointDialog() override;  // waits until the model has been read
  void addFiles(const QStringList& paths);
  // Offers a checkpoint that is open as the reference, with the texts that it was run on.
  void offerReference(const CheckpointTexts& open);
  void setReference(const QString& folder);  // another checkpoint, run as run A on the same texts

 signals:
  void chosen(CheckpointTexts texts);
  void trainingWanted();  // on from its weights
  void tensorsWanted();
  void logWanted();

 protected:
  void dragEnterEvent(QDragEnterEvent* event) override;
  void dropEvent(QDropEvent* event) override;

 private:
  void describe();
  void enableRun();
  void followReference();
  CheckpointTexts texts() const;

  QString folder_;
  QLabel* facts_;
  QPlainTextEdit* prompt_;
  QListWidget* files_;
  QComboBox* reference_;
  CheckpointTexts open_;  // of offerReference()
  QPushButton* run_;
  bool readable_ = false;
  std::thread reader_;
};

}  // namespace moescope
