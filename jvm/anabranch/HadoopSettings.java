package anabranch;

import java.lang.reflect.Field;
import org.apache.hadoop.conf.Configuration;

/**
 * Makes Hadoop's settings cheap to send.
 *
 * <p>Spark sends them along with every batch that has state, twice for an Aggregate. Hadoop then writes for each of its
 * hundreds of settings which file it came from, compressed, one by one: a quarter of the work of Spark's driver in a
 * small batch. Nobody reads that. It is for people who look for the origin of a setting, and is forgotten here; the
 * settings stay.
 */
public final class HadoopSettings {
    private HadoopSettings() {
    }

    public static void forgetOrigins(Configuration settings) {
        settings.size();  // loads the files, which are read when a setting is first asked for
        try {
            Field origins = Configuration.class.getDeclaredField("updatingResource");
            origins.setAccessible(true);
            origins.set(settings, null);
        } catch (ReflectiveOperationException error) {
            // another Hadoop: they are sent as they are
        }
    }
}
