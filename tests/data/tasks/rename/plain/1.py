# I look where it is used.
import subprocess
print(subprocess.run(["grep", "-rn", "CacheTestMixin", "."], capture_output=True, text=True).stdout)
