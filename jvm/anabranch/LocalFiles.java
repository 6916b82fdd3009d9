package anabranch;

import org.apache.hadoop.fs.LocalFileSystem;

/**
 * The files of this machine, as Hadoop has them, checksums included, without a process for each file that is made.
 *
 * <p>Hadoop sets the permissions of a new file by running {@code chmod}, where its native library is missing, as it is
 * in what PySpark brings. A micro-batch makes from four files to some dozens, and each process takes milliseconds.
 */
public final class LocalFiles extends LocalFileSystem {
    public LocalFiles() {
        super(new RawLocalFiles());
    }
}
